"""The composition root: settings in, objects out. The wiring diagram of hermesops; it decides nothing.

Each part is made when it is first asked for, and imports only what it needs.
"""

import getpass
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops import __version__, assets
from hermesops.errors import BrokenInvariantError, UsageError
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName
from hermesops.model.plan import Plan
from hermesops.settings import Environment

if TYPE_CHECKING:
    from hermesops.access.endpoint import Endpoint
    from hermesops.access.visits import Visits
    from hermesops.channel.agent import AgentApi
    from hermesops.converge import Converger
    from hermesops.engine.interface import Engine, Progress
    from hermesops.image.build import Builder, Recipe
    from hermesops.justavps import Client
    from hermesops.lifecycle.admission import Admission
    from hermesops.lifecycle.provision import Provision
    from hermesops.lifecycle.reach import Reach
    from hermesops.lifecycle.requests import Requests
    from hermesops.lifecycle.restart import Restart
    from hermesops.lifecycle.terminate import Terminate
    from hermesops.model.cell import CellSpec
    from hermesops.model.check import Check
    from hermesops.model.instance import Instance
    from hermesops.model.operation import Operation
    from hermesops.operation.lease import LeaseKeeper
    from hermesops.operation.loop import Work
    from hermesops.operation.runner import Operations
    from hermesops.placement.cell_stacks import CellStacks
    from hermesops.registry import Registry
    from hermesops.verify.verification import Verification

Tell = Callable[[str], None]
"""Takes a line of narration."""

_TURN_S = 900.0
"""Seconds to wait for whoever runs a cell's stack; a cell of new machines takes minutes."""


class App:
    """Everything of one environment that needs no connection.

    Args:
        env: The environment's settings.
        tell: Takes narration.
    """

    def __init__(self, env: Environment, tell: Tell) -> None:
        self.env = env
        self.tell = tell

    @cached_property
    def endpoint(self) -> "Endpoint":
        """The vendor's API and the model router."""
        return endpoint_of(self.env)

    @cached_property
    def registry(self) -> "Registry":
        """Instances, cells, images, operations, leases, audit."""
        from hermesops.access.key_ring import KeyRing
        from hermesops.registry import open_registry

        key_file = self.env.settings.registry_key_file or self.env.keys / "registry.key"
        return open_registry(
            self._registry_url(),
            environment=self.env.name,
            actor=f"{getpass.getuser()}@{socket.gethostname()}",
            sealer=lambda is_new: KeyRing.load(key_file, create=is_new),
        )

    def migrate_registry(self) -> tuple[str, str]:
        """Bring the registry's tables to this code's revision; the revisions before and now."""
        from hermesops.registry.registry import migrate_registry

        return migrate_registry(self._registry_url())

    def _registry_url(self) -> str:
        url = self.env.settings.registry_url
        if url is not None:
            return url.get_secret_value()
        self.env.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return f"sqlite:///{self.env.folder / 'registry.db'}"

    @cached_property
    def engine(self) -> "Engine":
        """What runs Pulumi programs."""
        from hermesops.access.secret_file import make_secret
        from hermesops.engine import make_engine

        settings = self.env.settings
        passphrase_file = settings.pulumi_passphrase_file or self.env.keys / "pulumi.passphrase"
        if settings.pulumi_passphrase_file is None and not passphrase_file.exists():
            make_secret(passphrase_file, secrets.token_urlsafe(32))
        return make_engine(
            settings.pulumi_engine,
            production=self.env.is_production,
            backend=settings.pulumi_backend or self.env.folder / "pulumi",
            passphrase_file=passphrase_file,
            plugin_environment={**self.env.inherited, "HERMESOPS_ENV": self.env.name},
        )

    @cached_property
    def cell_stacks(self) -> "CellStacks":
        """Cells' Pulumi stacks."""
        from hermesops.operation.lease import LeaseKeeper
        from hermesops.placement.cell_stacks import CellStacks

        return CellStacks(
            self.registry,
            self.engine,
            _cell_program,
            partial(LeaseKeeper, self.registry, wait_s=_TURN_S),
            partial(_tell_progress, self.tell),
        )

    async def doctor(self) -> "list[Check]":
        """What this computer and this environment lack."""
        from hermesops.localcloud.nspawn import host
        from hermesops.verify.computer import check_computer
        from hermesops.verify.environment import check_environment

        room = host.look(_existing(self.env.world), []) if self.env.is_local else None
        return [*check_computer(room), *await check_environment(self._registry_opens, self._vendor_answers)]

    def _registry_opens(self) -> str:
        return f"{len(self.registry.list_instances())} instances"

    async def _vendor_answers(self) -> str:
        async with self.session() as session:
            account = await session.client.get_account()
        return f"{self.endpoint.api_url} knows {account.machines_count} machines"

    def alone(self, subject: str) -> "LeaseKeeper":
        """Holds the lease of a subject while its context lasts; refused at once when somebody else does."""
        from hermesops.operation.lease import LeaseKeeper

        return LeaseKeeper(self.registry, subject)

    @asynccontextmanager
    async def session(self) -> AsyncIterator["Session"]:
        """Everything that needs connections, closed at the end."""
        from hermesops.access.proxy_tokens import ProxyTokens
        from hermesops.channel.agent import AgentApi
        from hermesops.justavps import Client
        from hermesops.justavps.proxy import ProxyClient

        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(Client(self.endpoint.api_url, self.endpoint.api_key))
            proxy = await stack.enter_async_context(ProxyClient(self.endpoint.api_url))
            yield Session(self, client, AgentApi(proxy, ProxyTokens(client, self.registry)))


@dataclass(frozen=True)
class Session:
    """Everything of one environment that talks to the vendor and to machines."""

    app: App
    client: "Client"
    agents: "AgentApi"

    @cached_property
    def admission(self) -> "Admission":
        """Turns wishes for agents into rows."""
        from hermesops.lifecycle.admission import Admission, Policy
        from hermesops.placement.cells import choose_cell

        settings = self.app.env.settings
        policy = Policy(settings.image, settings.region, settings.server_types, settings.cell_size)
        return Admission(self.app.registry, self.reach, choose_cell, policy)

    @cached_property
    def reach(self) -> "Reach":
        """Machines, nodes and gateways."""
        from hermesops.access.instance_keys import InstanceKeys, read_router_key
        from hermesops.lifecycle.reach import Reach

        endpoint = self.app.endpoint
        if endpoint.router_key_file is None:
            raise UsageError(f"environment {self.app.env.name} has no router_key_file", hint="hermesops settings show")
        return Reach(
            rows=self.app.registry,
            vendor=self.client,
            keys=InstanceKeys(self.app.registry, read_router_key(endpoint.router_key_file)),
            agents=self.agents,
            router_url=endpoint.router_url,
            gateway_timeout_s=self.app.env.settings.gateway_timeout_s,
            tell=self.app.tell,
        )

    @cached_property
    def operations(self) -> "Operations":
        """Brings operations to their end."""
        from hermesops.model.operation import OperationKind
        from hermesops.operation.runner import Operations

        works: dict[OperationKind, Callable[[Operation], Work[Any, Any]]] = {
            OperationKind.PROVISION: self._provision,
            OperationKind.TERMINATE: self._terminate,
            OperationKind.RESTART: self._restart,
        }
        return Operations(self.app.registry, works, self.app.tell)

    @cached_property
    def image_builder(self) -> "Builder":
        """Builds images."""
        from hermesops.image.build import Builder
        from hermesops.image.download import Pip

        env = self.app.env
        return Builder(
            vendor=self.client,
            channel_to=self.reach.channel,
            converge=self._converger.apply,
            verify=self._verify_nobodys,
            downloads=Pip(env.inherited),
            cache=env.cache,
            manifests=env.folder / "manifests",
            tell=self.app.tell,
        )

    @cached_property
    def _converger(self) -> "Converger":
        from hermesops.converge import Access, Converger

        endpoint = self.app.endpoint
        if endpoint.api_key_file is None:
            raise UsageError("Ansible is given the API key by file only", hint="set api_key_file instead of api_key")
        return Converger(assets.folder("ansible"), Access(endpoint.api_url, endpoint.api_key_file))

    def recipe(self, image: str) -> "Recipe":
        """What an image is made of, here and now."""
        from hermesops.image import definition
        from hermesops.image.build import Recipe
        from hermesops.node import build as node

        app, settings = self.app, self.app.env.settings
        made = definition.load(assets.folder("images") / image)
        program = app.env.cache / "node" / "hermes-node"
        program.parent.mkdir(parents=True, exist_ok=True)
        node.write(program)
        variables = {
            "hermes_base_broker_addresses": list(app.endpoint.broker_addresses),
            "hermes_base_daemon_port": app.endpoint.daemon_port,
        }
        inputs = definition.inputs_of(
            made,
            roles=assets.folder("roles"),
            playbooks=assets.folder("ansible") / "playbooks",
            variables=variables,
            extra={"hermes-node": program},
        )
        return Recipe(
            definition=made,
            inputs=inputs,
            environment=app.env.name,
            server_type=settings.server_types[Plan.LIGHT],
            region=settings.region,
            variables={**variables, "hermes_node_program": str(program)},
            versions={"hermesops": __version__},
        )

    @cached_property
    def requests(self) -> "Requests":
        """Turns what operators ask of instances into rows."""
        from hermesops.lifecycle.requests import Requests

        return Requests(self.app.registry, self.reach, self.reach.gateways)

    @cached_property
    def visits(self) -> "Visits":
        """Lets operators in, with a reason."""
        from hermesops.access.visits import Visits

        return Visits(self.app.registry)

    async def verify(self, instance: "Instance") -> "Verification":
        """Check on an instance's machine what the roles promise."""
        from hermesops.verify.promise import Expected
        from hermesops.verify.verification import verify

        key = self.app.registry.api_server_key(instance.id)
        return await verify(await self.reach.channel_to(instance), Expected.of(instance, api_server_key=key))

    async def _verify_nobodys(self, machine_id: MachineId, *, tell: Tell) -> tuple[str, ...]:
        from hermesops.model.check import Verdict
        from hermesops.verify.promise import Expected
        from hermesops.verify.promises import WITHOUT_USER
        from hermesops.verify.verification import verify

        verification = await verify(self.reach.channel(machine_id), Expected(""), WITHOUT_USER)
        tell(f"made {len(verification.checks)} checks")
        return tuple(f"{c.name}: {c.seen}" for c in verification.for_user("") if c.verdict is not Verdict.OK)

    def _provision(self, operation: "Operation") -> "Provision":
        from hermesops.lifecycle.provision import Provision

        return Provision(_instance_of(operation), self.app.registry, self.reach, self.app.cell_stacks)

    def _terminate(self, operation: "Operation") -> "Terminate":
        from hermesops.lifecycle.terminate import Terminate

        return Terminate(
            _instance_of(operation), self.app.registry, self.reach, self.reach.gateways, self.app.cell_stacks
        )

    def _restart(self, operation: "Operation") -> "Restart":
        from hermesops.lifecycle.restart import Restart

        return Restart(_instance_of(operation), str(operation.intent["before"]), self.reach, self.reach.gateways)


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())


def endpoint_of(env: Environment) -> "Endpoint":
    """Where an environment's vendor and model router are.

    Raises:
        UnavailableError: It is the local world, which is not up.
        UsageError: Something that it takes is not set.
    """
    from hermesops.access.endpoint import Endpoint, local_endpoint, read_key

    settings = env.settings
    if env.is_local:
        return local_endpoint(env.world / "world.json")
    if not settings.api_url:
        raise UsageError(f"environment {env.name} has no api_url", hint="hermesops settings show")
    if settings.api_key is None and settings.api_key_file is None:
        raise UsageError(f"environment {env.name} has neither api_key_file nor api_key", hint="hermesops settings show")
    key = settings.api_key.get_secret_value() if settings.api_key else ""
    return Endpoint(
        settings.api_url,
        key or read_key(settings.api_key_file or Path(), what="API key"),
        settings.api_key_file,
        settings.router_url,
        settings.router_key_file,
        tuple(address.strip() for address in settings.broker_addresses.split(",") if address.strip()),
        settings.daemon_port,
    )


def fleet_program() -> Callable[[], None]:
    """The program of the stack that Pulumi's own CLI is running, for ``pulumi/fleet/__main__.py``."""
    import pulumi

    app = App(Environment.load(), lambda _: None)
    return _cell_program(app.registry.cell_spec(CellName(pulumi.get_stack())), frozenset())


def _cell_program(spec: "CellSpec", released: frozenset[MachineName]) -> Callable[[], None]:
    from hermesops.stacks.fleet import FleetProgram

    return FleetProgram(spec, released)


def _instance_of(operation: "Operation") -> InstanceId:
    if operation.instance_id is None:
        raise BrokenInvariantError(f"operation {operation.id} of kind {operation.kind} names no instance")
    return operation.instance_id


def _tell_progress(tell: Tell, progress: "Progress") -> None:
    if progress.kind in {"warning", "error", "failed"}:
        tell(f"{progress.name}: {progress.message or progress.change}")
