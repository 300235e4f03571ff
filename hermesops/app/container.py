"""Everything of one environment that needs no connection."""

import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops import child_environment
from hermesops.app.container_parts.connected import Connected
from hermesops.app.container_parts.endpoint import endpoint_of
from hermesops.app.container_parts.narration import Tell, Warn, tell_problem, tell_progress, warn
from hermesops.app.container_parts.programs import CellPrograms
from hermesops.model.ids import CellName
from hermesops.settings import Environment

if TYPE_CHECKING:
    from hermesops.app.container_parts.registry import RegistryPlace
    from hermesops.app.services.change_guard import Guards
    from hermesops.app.services.mass_changes import MassChanges
    from hermesops.cells.stack.stacks import CellStacks
    from hermesops.cells.stack.state_repair import CellImports, CellStates
    from hermesops.engine.interface import Engine
    from hermesops.justavps import Client
    from hermesops.model.check import Check
    from hermesops.model.contradiction import Contradiction
    from hermesops.model.stack import StackRef
    from hermesops.operations.kinds import ApprovedList
    from hermesops.operations.lease import LeaseKeeper
    from hermesops.registry import Registry
    from hermesops.release import Releases
    from hermesops.secrets.endpoint import Endpoint
    from hermesops.secrets.store import Secrets

_TURN_S = 900.0
"""Seconds to wait for whoever runs a cell's stack; a cell of new machines takes minutes."""


class Container:
    """Everything of one environment that needs no connection.

    Args:
        env: The environment's settings.
        tell: Takes narration.
        warn: Takes what went wrong beside the work.
    """

    def __init__(self, env: Environment, tell: Tell, warn: Warn = warn) -> None:
        self.env = env
        self.tell = tell
        self._warn = warn
        self.approved_list: ApprovedList | None = None
        """What an operator brings along who ends or resizes many agents."""

    @cached_property
    def endpoint(self) -> "Endpoint":
        """The vendor's API and the model router."""
        return endpoint_of(self.env)

    @cached_property
    def secrets(self) -> "Secrets":
        """What opens all the rest."""
        from hermesops.app.container_parts.secrets import secrets_of

        return secrets_of(self.env)

    @property
    def api_key_file(self) -> Path:
        """A file with the API key, for programs that take nothing else."""
        from hermesops.secrets.catalog import API_KEY

        given = self.endpoint.api_key_file
        return given or self.secrets.lend(API_KEY, self.endpoint.api_key)

    @property
    def router_key(self) -> bytes:
        """What signs agents' tokens for the model router."""
        from hermesops.app.container_parts.secrets import router_key_of

        return router_key_of(self.env, self.endpoint, self.secrets)

    @property
    def model_token_life(self) -> timedelta:
        """For how long an agent's token for the model router counts."""
        return timedelta(days=self.env.settings.model_token_days)

    @cached_property
    def registry(self) -> "Registry":
        """Instances, cells, images, operations, leases, audit."""
        return self.registry_place.open()

    @cached_property
    def registry_place(self) -> "RegistryPlace":
        """Where the registry is, with its copies and the audit's anchor."""
        from hermesops.app.container_parts.registry import RegistryPlace

        return RegistryPlace(self.env, self._warn)

    @cached_property
    def releases(self) -> "Releases":
        """What may run on instances."""
        from hermesops.app.services.releases import releases_of

        return releases_of(self)

    @property
    def mass_changes(self) -> "MassChanges":
        """Counts agents that end or change their plan."""
        from hermesops.app.services.mass_changes import MassChanges

        return MassChanges(self.env, self.registry, self.approved_list)

    @cached_property
    def engine(self) -> "Engine":
        """What runs Pulumi programs."""
        from hermesops.engine import EngineConfig, make_engine

        settings = self.env.settings
        return make_engine(
            settings.pulumi_engine,
            EngineConfig(
                backend=self.pulumi_backend,
                passphrase=self._passphrase,
                environment=self._plugin_environment(),
                token_of=self._token_of,
            ),
            production=self.env.is_production,
        )

    def _plugin_environment(self) -> dict[str, str]:
        """Of Pulumi's plugins: they order machines, so they need the vendor's key, and no other secret."""
        is_bucket = self.pulumi_backend.startswith("s3://") or self.env.settings.secrets_home.startswith("aws:")
        names = (child_environment.PULUMI, *((child_environment.BUCKET,) if is_bucket else ()))
        return self.env.for_hermesops(*names, secrets={"HERMESOPS_API_KEY", "HERMESOPS_SECRET_API_KEY"})

    @property
    def pulumi_backend(self) -> str:
        """Folder or URL of Pulumi's state."""
        return self.env.settings.pulumi_backend or str(self.env.folder / "pulumi")

    def _passphrase(self) -> str:
        from hermesops.engine.choose import read_passphrase
        from hermesops.secrets.catalog import PULUMI_PASSPHRASE

        file = self.env.settings.pulumi_passphrase_file
        if file is not None:
            return read_passphrase(file)
        return self.secrets.made(PULUMI_PASSPHRASE, secrets.token_urlsafe(32))

    def _token_of(self, stack: "StackRef") -> tuple[int, int] | None:
        from hermesops.cells.stack.state import lease_of

        subject = lease_of(CellName(stack.stack))
        held = (lease for lease in self.registry.leases.list() if lease.subject == subject)
        return next(((lease.epoch, lease.counter) for lease in held), None)

    @property
    def programs(self) -> CellPrograms:
        """Cells' Pulumi programs."""
        return CellPrograms(self.env.settings.data_gb)

    @cached_property
    def cell_stacks(self) -> "CellStacks":
        """Cells' Pulumi stacks."""
        from hermesops.cells.stack.stacks import CellStacks
        from hermesops.operations.lease import LeaseKeeper

        return CellStacks(
            self.registry,
            self.engine,
            self.programs,
            partial(LeaseKeeper, self.registry, wait_s=_TURN_S),
            self.guards.judge,
            parallel=self.env.settings.parallel_cells,
            tell=partial(tell_progress, self.tell),
            warn=partial(tell_problem, self.tell),
        )

    @cached_property
    def guards(self) -> "Guards":
        """What stands before every run of a cell."""
        from hermesops.app.services.change_guard import Guards

        return Guards(self)

    @cached_property
    def cell_states(self) -> "CellStates":
        """The states of cells' stacks, mended by hand."""
        from hermesops.cells.stack.state_repair import CellStates
        from hermesops.operations.lease import LeaseKeeper

        return CellStates(self.engine, self.registry, partial(LeaseKeeper, self.registry, wait_s=_TURN_S))

    def cell_imports(self, client: "Client") -> "CellImports":
        """Machines taken into cells' stacks by their ids."""
        from hermesops.cells.stack.state_repair import CellImports
        from hermesops.operations.lease import LeaseKeeper

        alone = partial(LeaseKeeper, self.registry, wait_s=_TURN_S)
        return CellImports(self.registry, self.engine, self.cell_stacks, self.programs, client, alone)

    @property
    def program(self) -> str:
        """The command's name as an operator of this environment types it."""
        return "hermesops" if self.env.name == "local" else f"hermesops --env {self.env.name}"

    def contradictions(self) -> "list[Contradiction]":
        """What in the registry cannot be true together, the audit's chain included."""
        from hermesops.model.contradiction import Contradiction

        broken = self.registry.audit.check().findings
        chain = (Contradiction(f"audit/{one.id}", one.what, "hermesops audit verify") for one in broken)
        return [*self.registry.consistency.contradictions(), *chain]

    async def doctor(self) -> "list[Check]":
        """What this computer and this environment lack."""
        from hermesops.doctor.computer import check_computer
        from hermesops.doctor.environment import check_all
        from hermesops.localcloud.world.files import is_simulated

        real = self.env.is_local and self.env.settings.local_driver != "sim" and not is_simulated(self.env.world)
        looks = {"registry": self.registry_opens, "vendor": self.vendor_answers}
        if real:
            looks = {"room": self.has_room, **looks}
        return [*check_computer(runs_machines=real), *await check_all(looks)]

    async def has_room(self) -> str:
        """Count what is free for local machines, in a few words.

        Raises:
            RefusedError: It is too little for one more.
        """
        from hermesops.doctor.computer import free_room
        from hermesops.localcloud.drivers.nspawn.computer import resources

        room = resources.free_resources(_existing(self.env.world), [])
        return free_room(room.machines, room)

    async def registry_opens(self) -> str:
        """Open the registry; what is in it, in a few words."""
        return f"{len(self.registry.instances.list())} instances"

    async def vendor_answers(self) -> str:
        """Ask the vendor something harmless; what it answered, in a few words."""
        async with self.vendor() as client:
            account = await client.get_account()
        return f"{self.endpoint.api_url} knows {account.machines_count} machines"

    def hold_lease(self, subject: str) -> "LeaseKeeper":
        """Holds the lease of a subject while its context lasts; refused at once when somebody else does."""
        from hermesops.operations.lease import LeaseKeeper

        return LeaseKeeper(self.registry, subject)

    @asynccontextmanager
    async def vendor(self) -> AsyncIterator["Client"]:
        """The vendor's API alone, for what has to work without a registry."""
        from hermesops.justavps import Client

        async with Client(self.endpoint.api_url, self.endpoint.api_key) as client:
            yield client

    @asynccontextmanager
    async def session(self) -> AsyncIterator["Connected"]:
        """Everything that needs connections, closed at the end."""
        from hermesops.channel.agent import AgentApi
        from hermesops.justavps.proxy import ProxyClient
        from hermesops.proxy_tokens.issue import ProxyTokens

        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(self.vendor())
            connections = ProxyClient(self.endpoint.api_url, domain=self.env.settings.proxy_domain)
            proxy = await stack.enter_async_context(connections)
            yield Connected(self, client, AgentApi(proxy, ProxyTokens(client, self.registry)))


def _existing(folder: Path) -> Path:
    return next(place for place in (folder, *folder.parents) if place.exists())
