"""Everything of one environment that talks to the vendor and to machines."""

from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hermesops import __version__, assets, child_environment
from hermesops.app.container_parts.narration import Tell
from hermesops.model.ids import MachineId
from hermesops.model.plan import Plan

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.app.services.backups import Backups
    from hermesops.app.services.pools import Pools
    from hermesops.app.services.rollouts import Rollouts
    from hermesops.app.services.snapshots import Snapshots
    from hermesops.backup.copies import Copies
    from hermesops.channel.agent import AgentApi
    from hermesops.converge import Converger
    from hermesops.identity.operators import AuditedAccess
    from hermesops.image.build import Builder, Recipe
    from hermesops.instances.expiry import Upkeep
    from hermesops.instances.remote.certificates import Certifying
    from hermesops.instances.remote.power_control import PowerControl
    from hermesops.instances.requests.bulk import BulkProvision
    from hermesops.instances.requests.changes import InstanceRequests
    from hermesops.instances.requests.opening import OperationOpener
    from hermesops.instances.requests.provision import Policy, ProvisionAdmission, ProvisionPreflight
    from hermesops.justavps import Client
    from hermesops.model.instance import Instance
    from hermesops.operations.runner import Operations
    from hermesops.verify.verification import Verification


@dataclass(frozen=True)
class Connected:
    """Everything of one environment that talks to the vendor and to machines."""

    app: "Container"
    client: "Client"
    agents: "AgentApi"

    @cached_property
    def admission(self) -> "ProvisionAdmission":
        """Turns requests for agents into rows."""
        from hermesops.cells.scheduling import choose_cell
        from hermesops.instances.requests.provision import ProvisionAdmission

        return ProvisionAdmission(self.app.registry, self._preflight, choose_cell, self.pools, self._policy)

    @cached_property
    def bulk_provision(self) -> "BulkProvision":
        """Takes many requests at once."""
        from hermesops.instances.requests.bulk import BulkProvision

        at_once = self.app.env.settings.parallel_provisions
        return BulkProvision(self.admission, self._preflight, self._policy, at_once=at_once)

    @cached_property
    def _preflight(self) -> "ProvisionPreflight":
        from hermesops.instances.requests.provision import ProvisionPreflight

        return ProvisionPreflight(self.app.registry, self.instance_client, self.app.guards, self._policy)

    @property
    def _policy(self) -> "Policy":
        from hermesops.instances.requests.provision import Policy

        settings = self.app.env.settings
        return Policy(
            settings.image,
            settings.region,
            settings.server_types,
            settings.cell_size,
            settings.plan_regions,
            settings.plans_apart,
        )

    @cached_property
    def instance_client(self) -> "PowerControl":
        """Machines, nodes and gateways."""
        from hermesops.instances.remote.power_control import PowerControl
        from hermesops.secrets.instance_keys import InstanceKeys

        endpoint = self.app.endpoint
        return PowerControl(
            registry=self.app.registry,
            vendor=self.client,
            keys=InstanceKeys(self.app.registry, self.app.router_key, life=self.app.model_token_life),
            agents=self.agents,
            router_url=endpoint.router_url,
            gateway_timeout_s=self.app.env.settings.gateway_timeout_s,
            tell=self.app.tell,
            certifying=self._certifying,
        )

    @property
    def _certifying(self) -> "Certifying | None":
        from hermesops.app.services.machine_certificates import certificates_of
        from hermesops.instances.remote.certificates import Certifying

        certificates = certificates_of(self.app)
        return Certifying(certificates) if certificates else None

    @cached_property
    def pools(self) -> "Pools":
        """Warm pools."""
        from hermesops.app.services.pools import Pools

        return Pools(self)

    @cached_property
    def backups(self) -> "Backups":
        """Encrypted copies of instances' states."""
        from hermesops.app.services.backups import Backups

        return Backups(self)

    @cached_property
    def snapshots(self) -> "Snapshots":
        """The vendor's images of single instances."""
        from hermesops.app.services.snapshots import Snapshots

        return Snapshots(self)

    @cached_property
    def rollouts(self) -> "Rollouts":
        """Releases brought to many."""
        from hermesops.app.services.rollouts import Rollouts

        return Rollouts(self)

    @cached_property
    def operations(self) -> "Operations":
        """Brings operations to their end."""
        from hermesops.app.handlers.operations import OperationHandlers
        from hermesops.operations.runner import Operations

        return Operations(self.app.registry, OperationHandlers(self).handlers(), self.app.tell)

    @cached_property
    def image_builder(self) -> "Builder":
        """Builds images."""
        from hermesops.image.build import Builder, SimulatedBuilder
        from hermesops.image.download import Pip
        from hermesops.localcloud.world.files import is_simulated

        env = self.app.env
        builder = SimulatedBuilder if env.is_local and is_simulated(env.world) else Builder
        return builder(
            vendor=self.client,
            channel_to=self.instance_client.channel,
            converge=partial(self.converger.apply, tell=self.app.tell),
            verify=partial(self.verify_nobodys, tell=self.app.tell),
            downloads=Pip(env.for_child(child_environment.PACKAGES)),
            cache=env.cache,
            manifests=env.folder / "manifests",
            tell=self.app.tell,
        )

    @cached_property
    def converger(self) -> "Converger":
        """Runs playbooks on machines."""
        from hermesops.converge import Access, Converger

        return Converger(assets.folder("ansible"), Access(self.app.endpoint.api_url, self.app.api_key_file))

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
    def opener(self) -> "OperationOpener":
        """Opens operations of instances."""
        from hermesops.instances.requests.opening import OperationOpener

        return OperationOpener(self.app.registry, self.app.hold_lease)

    @cached_property
    def instance_requests(self) -> "InstanceRequests":
        """Turns what operators ask of an agent's life into rows."""
        from hermesops.app.handlers.instances import LifecycleHandlers

        return LifecycleHandlers(self).requests()

    @cached_property
    def upkeep(self) -> "Upkeep":
        """Does what has fallen due."""
        from hermesops.app.handlers.instances import LifecycleHandlers

        return LifecycleHandlers(self).upkeep()

    def copies(self, reach: "PowerControl") -> "Copies":
        """Backups, made and put back by hermes-node as that reach may."""
        return self.backups.copies(reach)

    @cached_property
    def audited_access(self) -> "AuditedAccess":
        """Lets operators in, with a reason."""
        from hermesops.identity.operators import AuditedAccess

        return AuditedAccess(self.app.registry)

    async def verify(self, instance: "Instance") -> "Verification":
        """Check on an instance's machine what the roles promise."""
        from hermesops.verify.checks.promise import Expected
        from hermesops.verify.verification import verify

        key = self.app.registry.instance_secrets.api_server_key(instance.id)
        return await verify(await self.instance_client.channel_to(instance), Expected.of(instance, api_server_key=key))

    async def verify_nobodys(self, machine_id: MachineId, *, tell: Tell) -> tuple[str, ...]:
        """What a machine without a user should promise, and does not."""
        from hermesops.model.check import Verdict
        from hermesops.verify.checks.promise import Expected
        from hermesops.verify.verification import WITHOUT_USER, verify

        verification = await verify(self.instance_client.channel(machine_id), Expected(""), WITHOUT_USER)
        tell(f"made {len(verification.checks)} checks")
        return tuple(f"{c.name}: {c.seen}" for c in verification.for_user("") if c.verdict is not Verdict.OK)
