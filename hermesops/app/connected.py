"""The parts of one environment that talk to the vendor and to machines, each made when it is first asked for."""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hermesops import __version__
from hermesops.access.registry_place import queue_url
from hermesops.access.secrets.instance_keys import InstanceKeys
from hermesops.agents.instances.credentials.tokens import ModelTokens, ProxyTokens
from hermesops.agents.instances.remote.certificates import Certifying
from hermesops.agents.instances.remote.operator_access import OperatorAccess
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.agents.instances.requests.bulk import BulkProvision
from hermesops.agents.instances.requests.expiry import Upkeep
from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.agents.instances.requests.placement import MachinePlacement
from hermesops.agents.instances.requests.provision import Policy, ProvisionAdmission, ProvisionPreflight
from hermesops.agents.instances.snapshots import Snapshots
from hermesops.base import assets
from hermesops.base.narration import Reporter
from hermesops.model.ids import MachineId
from hermesops.model.instance import Instance
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.model.release import ReleaseId
from hermesops.model.rollout_spec import Action
from hermesops.store.operations.holder import this_process
from hermesops.store.operations.kinds import Keep
from hermesops.store.operations.runner import Handler, Operations
from hermesops.users.billing.model_usage import budgets_of
from hermesops.vendor.channel.agent import AgentApi
from hermesops.vendor.justavps import Client

if TYPE_CHECKING:
    from hermesops.agents.backup.drills import Drills
    from hermesops.agents.backup.restores import Restores
    from hermesops.agents.backup.service import Backups
    from hermesops.agents.drift.service import Drift
    from hermesops.agents.drill.service import DrillMachines
    from hermesops.agents.health.instance_reports import InstanceReports
    from hermesops.agents.health.instance_waits import InstanceWaits
    from hermesops.agents.instances.credentials.certificates import CertificateRenewal
    from hermesops.agents.instances.preview.service import AgentPreviews, ChangePreviews
    from hermesops.agents.instances.releases.transfer import ReleaseTransfer
    from hermesops.agents.instances.remote.state_comparison import StateComparisons
    from hermesops.agents.instances.requests.changes import InstanceRequests
    from hermesops.agents.pool.service import Pools
    from hermesops.agents.rollout.ports import Machines
    from hermesops.agents.rollout.service import Rollouts
    from hermesops.app.container_parts.registry_services import RegistryServices
    from hermesops.automation.jobs.service import Jobs
    from hermesops.automation.monitor.platform_metrics import PlatformMetrics
    from hermesops.automation.monitor.runner import Monitor
    from hermesops.machines.image.build import Builder, Recipe
    from hermesops.machines.image.directory import ImageBuilds
    from hermesops.machines.verify.verification import Verification
    from hermesops.model.rollout import Rollout
    from hermesops.observability.telemetry.logs import InstanceLogs
    from hermesops.store.operations.worker import Worker
    from hermesops.users.billing.service import Billing


@dataclass(frozen=True)
class Connected:
    """All parts of one environment that need connections, while these are open.

    Attributes:
        is_dry_run: Whether requests write nothing: their operations are for ``change_previews`` only.
    """

    container: "RegistryServices"
    client: Client
    agents: AgentApi
    is_dry_run: bool = False

    @cached_property
    def admission(self) -> ProvisionAdmission:
        """Admits requests to provision instances."""
        return ProvisionAdmission(self.container.registry, self._preflight, self.pools, self._policy)

    @cached_property
    def bulk_provision(self) -> BulkProvision:
        """Provisions many instances at once."""
        at_once = self.container.env.settings.parallel_provisions
        return BulkProvision(self.admission, self._preflight, self._policy, at_once, self.container.report)

    @cached_property
    def _preflight(self) -> ProvisionPreflight:
        self._keys.router_key()  # where it is missing, nothing is rented
        return ProvisionPreflight(self.container.registry, self.instance_client, self.container.guards, self._policy)

    @property
    def _policy(self) -> Policy:
        settings = self.container.env.settings
        return Policy(
            settings.image,
            settings.region,
            settings.server_types,
            settings.cell_size,
            settings.plan_regions,
            settings.plans_apart,
        )

    @cached_property
    def instance_client(self) -> PowerControl:
        """Reaches machines, hermes-node and gateways."""
        endpoint, certificates = self.container.endpoint, self.container.certificates
        return PowerControl(
            registry=self.container.registry,
            vendor=self.client,
            keys=self._keys,
            agents=self.agents,
            router_url=endpoint.router_url,
            gateway_timeout_s=self.container.env.settings.gateway_timeout_s,
            report=self.container.report,
            certifying=Certifying(certificates) if certificates.url else None,
        )

    @property
    def instance_reports(self) -> "InstanceReports":
        """Reports on single instances."""
        from hermesops.agents.cells.cost.prices import list_price
        from hermesops.agents.health.instance_reports import InstanceReports

        container = self.container
        price = partial(list_price, self.client)
        return InstanceReports(
            container.registry, self.instance_client, container.monitoring_client, container.alerts, price
        )

    @property
    def instance_waits(self) -> "InstanceWaits":
        """Waits for states of instances."""
        from hermesops.agents.health.instance_waits import InstanceWaits

        return InstanceWaits(self.container.registry, self.instance_client.observe, self.container.report)

    @property
    def instance_logs(self) -> "InstanceLogs":
        """Reads instances' logs. Raises as ``monitoring``."""
        from hermesops.observability.telemetry.logs import InstanceLogs

        return InstanceLogs(self.instance_client, self.container.monitoring_client(), self.container.registry.now)

    @property
    def state_comparisons(self) -> "StateComparisons":
        """Compares instances' states with their backups."""
        from hermesops.agents.instances.remote.state_comparison import StateComparisons

        return StateComparisons(self.container.registry, self.instance_client)

    @cached_property
    def _keys(self) -> InstanceKeys:
        container = self.container
        return InstanceKeys(container.registry, lambda: container.router_key, life=container.model_token_life)

    @cached_property
    def certificate_renewal(self) -> "CertificateRenewal":
        """Gives machines fresh certificates."""
        from hermesops.agents.instances.credentials.certificates import CertificateRenewal

        return CertificateRenewal(self.container.registry, self.instance_client, self.container.hold_lease)

    @cached_property
    def pools(self) -> "Pools":
        """Warm pools."""
        from hermesops.agents.pool.service import Pools

        container = self.container
        return Pools(
            container.env.settings,
            container.registry,
            self.client,
            self.instance_client,
            container.cell_stacks,
            container.adapters.machine_checks(partial(self.verify_nobodys, report=lambda _: None)),
            container.report,
        )

    @cached_property
    def backups(self) -> "Backups":
        """Encrypted copies of instances' states."""
        from hermesops.agents.backup.service import Backups

        container = self.container
        return Backups(
            container.env,
            container.registry,
            container.backup_store,
            container.adapters.proof,
            container.adapters.contents,
            container.adapters.begin_repository,
            self.instance_client,
            self.opener,
            self._run_operation,
            container.recovery_records,
            container.report,
        )

    @cached_property
    def drills(self) -> "Drills":
        """Backups restored onto other machines, for proof."""
        from hermesops.agents.backup.drills import Drills

        container = self.container
        return Drills(
            container.env.settings,
            container.registry,
            self.instance_client,
            self.backups,
            self.pools,
            self.placement,
            container.guards,
            container.cell_stacks,
            container.hold_lease,
            container.report,
        )

    @property
    def restores(self) -> "Restores":
        """Opens restores of agents' states."""
        from hermesops.agents.backup.restores import Restores

        return Restores(self.backups, self.instance_requests)

    @property
    def drill_machines(self) -> "DrillMachines":
        """Machines of warm pools for drills of runbooks."""
        from hermesops.agents.drill.service import DrillMachines

        return DrillMachines(self.container.registry, self.pools, self.admission, self.operations, self.client)

    @cached_property
    def snapshots(self) -> Snapshots:
        """The vendor's images of single instances."""
        container = self.container
        return Snapshots(
            container.env.name,
            container.registry,
            self.client,
            self.opener,
            container.hold_lease,
            container.report,
        )

    @cached_property
    def rollouts(self) -> "Rollouts":
        """Starts and runs rollouts."""
        from hermesops.agents.rollout.service import Rollouts

        container = self.container
        return Rollouts(
            container.env,
            container.registry,
            container.rollout_requests,
            self.instance_client,
            self._rollout_machines,
            lambda: self.operations,
            container.report,
            container.monitoring_client(),
        )

    def _rollout_machines(self, rollout: "Rollout") -> "Machines":
        from hermesops.agents.rollout.machines.relocation import RelocatedMachines
        from hermesops.agents.rollout.machines.slots import SlotMachines
        from hermesops.agents.rollout.machines.tokens import TokenMachines

        container, client, pools = self.container, self.instance_client, self.pools
        action, purpose = rollout.action, f"rollout {rollout.id}"
        if action is Action.TOKENS:
            return TokenMachines(container.registry, client, self.model_tokens.hand, rollout.release, purpose)
        if action is Action.SLOT:
            return SlotMachines(
                container.registry,
                client,
                self.backups,
                pools,
                container.releases,
                container.hold_lease,
                self.operations.leave,
                purpose,
            )
        run = container.make_operations(self.handlers(), report=lambda _: None).run  # a rollout runs many at once
        return RelocatedMachines(container.registry, client, pools, self.drills, self.instance_requests, run, purpose)

    @cached_property
    def proxy_tokens(self) -> ProxyTokens:
        """Tokens that open machines."""
        return ProxyTokens(self.container.registry, self.client, self.agents)

    @cached_property
    def model_tokens(self) -> ModelTokens:
        """Agents' tokens for the model router."""
        container = self.container
        budgets = budgets_of(container.env.settings.model)
        return ModelTokens(
            container.registry, self.instance_client, container.hold_lease, container.model_token_life, budgets
        )

    @cached_property
    def drift(self) -> "Drift":
        """Finds what differs, and repairs machines by their roles."""
        from hermesops.agents.drift.service import Drift

        container = self.container
        return Drift(
            env=container.env,
            registry=container.registry,
            client=self.client,
            cells=container.cell_stacks,
            instance_client=self.instance_client,
            converger=self.container.converger,
            recipe=self.recipe,
            verify=self.verify,
            hold_lease=container.hold_lease,
            report=container.report,
        )

    @cached_property
    def operations(self) -> Operations:
        """Runs operations."""
        return self.container.make_operations(self.handlers())

    def handlers(self) -> Mapping[OperationKind, Handler]:
        """What makes the workflow of each kind of operation."""
        from hermesops.app.handlers import OperationHandlers

        container = self.container
        operations = OperationHandlers(
            registry=container.registry,
            client=self._client_of,
            cells=container.cell_stacks,
            backups=lambda: self.backups,
            snapshots=lambda: self.snapshots,
            drills=lambda: self.drills,
            stack_ups=lambda: container.stack_ups,
            pools=lambda: self.pools,
            rollouts=lambda: self.rollouts,
            mass_changes=container.mass_changes,
            data_gb=container.env.settings.data_gb,
            transfer=self._release_transfer,
        )
        return operations.handlers()

    def _client_of(self, lease: Lease) -> PowerControl:
        self._keys.router_key()  # where it is missing, the operation changes nothing
        return self.instance_client.with_lease(lease)

    def _release_transfer(self, lease: Lease) -> "ReleaseTransfer":
        from hermesops.agents.instances.releases.transfer import ReleaseTransfer

        client = ReleaseClient(self.instance_client.channel, lease)
        return ReleaseTransfer(self.container.registry, self.container.releases, client)

    async def _run_operation(self, operation: Operation) -> str:
        return await self.operations.run(operation)

    @cached_property
    def image_builder(self) -> "Builder":
        """Builds images."""
        container = self.container
        return container.adapters.image_builder(
            vendor=self.client,
            channel_to=self.instance_client.channel,
            converge=partial(self.container.converger.apply, report=container.report),
            refuse_unsigned=container.release_key.find,
            release=container.release_changes.build_for,
            install=self._install_release,
            verify=partial(self.verify_nobodys, report=container.report),
            manifests=container.env.folder / "manifests",
            report=container.report,
        )

    @property
    def image_builds(self) -> "ImageBuilds":
        """Builds images and records them."""
        from hermesops.machines.image.directory import ImageBuilds

        return ImageBuilds(self.container.registry, self.image_builder, self.recipe_to_build, self.container.hold_lease)

    async def _install_release(self, machine_id: MachineId, release: ReleaseId, python: str) -> None:
        from hermesops.agents.instances.remote.releases import ReleaseClient
        from hermesops.machines.release.releases import HandedOut

        bundle = HandedOut(release, self.container.releases)
        await ReleaseClient(self.instance_client.channel).install(machine_id, bundle, python=python)

    async def recipe_to_build(self, image: str) -> "Recipe":
        """What an image is made of, here and now; programs of the platform's that are missing are built first.

        Raises:
            UsageError: There is no such image.
            RefusedError: No machine of this environment boots it.
        """
        from hermesops.app.container_parts.platform_bundles import platform_recipe
        from hermesops.machines.image import definition

        made = definition.load(assets.folder("images") / image)
        return self.recipe(image) if made.agent else await platform_recipe(self.container, made)

    def recipe(self, image: str) -> "Recipe":
        """What an image of agents' machines is made of, here and now."""
        from hermesops.app.container_parts.local_world import loki_program
        from hermesops.machines.image import definition
        from hermesops.machines.image.build import Recipe
        from hermesops.machines.image.monitoring import machine_monitoring
        from hermesops.programs.node import build as node

        container, settings = self.container, self.container.env.settings
        made = definition.load(assets.folder("images") / image)
        program = container.env.cache / "node" / "hermes-node"
        program.parent.mkdir(parents=True, exist_ok=True)
        node.write(program)
        variables = self.container.base_variables
        asked = settings.monitoring
        monitoring = machine_monitoring(
            asked.profile, asked.loki, loki_program(container.env), time_scale=asked.time_scale
        )
        inputs = definition.inputs_of(
            made,
            roles=assets.folder("roles"),
            playbooks=assets.folder("ansible") / "playbooks",
            variables={**variables, **monitoring.inputs},
            extra={"hermes-node": program},
        )
        return Recipe(
            definition=made,
            inputs=inputs,
            environment=container.env.name,
            server_type=settings.server_types[Plan.LIGHT],
            region=settings.region,
            variables={**variables, **monitoring.variables, "hermes_node_program": str(program)},
            versions={"hermesops": __version__},
            note=monitoring.note,
        )

    @cached_property
    def opener(self) -> OperationOpener:
        """Opens operations of instances."""
        registry = self.container.registry
        if self.is_dry_run:
            from hermesops.agents.instances.preview.opening import DryRunOpener, unless_held

            return DryRunOpener(registry, partial(unless_held, registry))
        return OperationOpener(registry, self.container.hold_lease)

    def dry_run(self) -> "Connected":
        """The same parts, with requests that run every check and write nothing."""
        return replace(self, is_dry_run=True)

    @property
    def change_previews(self) -> "ChangePreviews":
        """Previews operations that a dry run opened."""
        from hermesops.agents.instances.preview.service import ChangePreviews

        settings, registry = self.container.env.settings, self.container.registry
        return ChangePreviews(registry, self.handlers(), self.instance_client, self.client, settings.previous_days)

    @property
    def agent_previews(self) -> "AgentPreviews":
        """Previews requests to provision instances."""
        from hermesops.agents.instances.preview.service import AgentPreviews

        return AgentPreviews(
            self.container.registry, self._preflight, self._policy, self.pools.next_claim, self.change_previews
        )

    @cached_property
    def instance_requests(self) -> "InstanceRequests":
        """Opens operations that change an instance's state, size or machine."""
        from hermesops.agents.instances.requests.changes import InstanceRequests, Policy

        settings, client = self.container.env.settings, self.instance_client
        policy = Policy(
            settings.server_types,
            settings.data_gb,
            self.container.termination_policy.grace,
            Keep(settings.suspended_machines),
            keeps_previous=settings.previous_days > 0,
        )
        return InstanceRequests(
            self.container.registry,
            client,
            self.backups.copies(client),
            self.placement,
            policy,
            self.opener,
            admit=self.container.mass_changes.admit,
        )

    @cached_property
    def placement(self) -> MachinePlacement:
        """Where machines of instances can be, and what they boot from."""
        settings = self.container.env.settings
        size, apart = settings.cell_size, settings.plans_apart
        return MachinePlacement(self.container.registry, settings.image, size, apart)

    @cached_property
    def upkeep(self) -> Upkeep:
        """Terminates agents after their days of grace, and returns machines that instances left."""
        settings = self.container.env.settings

        async def end(instance: Instance) -> str:
            keeps = self.container.termination_policy.requires_backup
            reason = "its days of grace are over"
            request = self.instance_requests.terminate(instance.id, keeps_backup=keeps, reason=reason)
            return await self.operations.run(await request)

        return Upkeep(self.container.registry, self.container.cell_stacks, end, timedelta(days=settings.previous_days))

    @cached_property
    def billing(self) -> "Billing":
        """Stripe's events about subscriptions."""
        from hermesops.users.billing.decide import Policy
        from hermesops.users.billing.secrets import rules_of, subscriptions_at_stripe
        from hermesops.users.billing.service import Billing
        from hermesops.users.billing.settlement import PaidAgents

        container, settings = self.container, self.container.env.settings
        asked = settings.billing
        agents = PaidAgents(
            container.registry,
            Policy(asked.prices, timedelta(days=asked.grace_days), asked.suspending_pauses),
            is_graceful=bool(container.termination_policy.grace),
            keeps_backup=container.termination_policy.requires_backup,
            admission=lambda: self.admission,
            requests=lambda: self.instance_requests,
            leave=self.operations.leave,
            hold_lease=container.hold_lease,
            current=partial(
                subscriptions_at_stripe, asked, container.secrets, is_production=container.env.is_production
            ),
        )
        rules = partial(rules_of, asked, container.secrets, is_production=container.env.is_production)
        return Billing(container.registry, rules, timedelta(days=asked.keep_days), agents)

    @property
    def operator_access(self) -> OperatorAccess:
        """Accesses agents and machines for operators, with audited reasons."""
        return OperatorAccess(self.container.registry, self.instance_client)

    async def verify(self, instance: Instance) -> "Verification":
        """Run all checks on an instance's machine."""
        from hermesops.machines.verify.checks.promise import Expected
        from hermesops.machines.verify.verification import verify

        key = self.container.registry.instance_secrets.api_server_key(instance.id)
        return await verify(await self.instance_client.channel_to(instance), Expected.of(instance, api_server_key=key))

    async def verify_nobodys(self, machine_id: MachineId, *, report: Reporter) -> tuple[str, ...]:
        """Run the checks of a machine without an instance; the failed ones."""
        from hermesops.machines.verify.checks.promise import Expected
        from hermesops.machines.verify.verification import WITHOUT_USER, verify

        verification = await verify(self.instance_client.channel(machine_id), Expected(""), WITHOUT_USER)
        report(f"made {len(verification.checks)} checks")
        return tuple(f"{c.name}: {c.seen}" for c in verification.for_user("") if not c.verdict.holds)

    @cached_property
    def jobs(self) -> "Jobs":
        """Scheduled jobs."""
        from hermesops.automation.jobs.service import Jobs

        return Jobs(
            settings=self.container.env.settings,
            registry=self.container.registry,
            operations=self.operations,
            backups=self.backups,
            drills=self.drills,
            rollouts=self.rollouts,
            pools=self.pools,
            upkeep=self.upkeep,
            proxy_tokens=self.proxy_tokens,
            model_tokens=self.model_tokens,
            billing=self.billing,
        )

    def make_worker(self, *, concurrency: int, grace_s: float) -> "Worker":
        """A worker of this environment.

        Args:
            grace_s: Seconds for running steps to end after a stop was requested.
        """
        from hermesops.store.operations.queue import DbosQueue
        from hermesops.store.operations.worker import Worker

        env, name = self.container.env, this_process()
        queue = partial(DbosQueue, queue_url(env), environment=env.name, worker=name, concurrency=concurrency)
        return Worker(name, self.container.registry, self.operations, lambda turn: queue(turn=turn), grace_s=grace_s)

    @asynccontextmanager
    async def monitor(self, *, every_s: float, grace_s: float) -> "AsyncIterator[Monitor]":
        """The monitor of this environment.

        Args:
            every_s: Seconds from the begin of one pass to the next.
            grace_s: Seconds for repairs under way to end after a stop was requested.
        """
        from hermesops.automation.monitor.figures import PROVISIONS_S, FleetFigures
        from hermesops.automation.monitor.ports import Ports
        from hermesops.automation.monitor.runner import Monitor
        from hermesops.automation.monitor.service import (
            InstanceRepairs,
            VendorMachines,
            policy_of,
        )
        from hermesops.automation.monitor.service_manager import SystemdNotify

        container, registry, settings = self.container, self.container.registry, self.container.env.settings.monitoring
        async with self._metrics() as metrics:
            ports = Ports(
                registry,
                FleetFigures(registry, PROVISIONS_S * settings.time_scale).read,
                metrics,
                VendorMachines(container.env.name, registry, self.instance_client, self._same_client),
                InstanceRepairs(registry, self.instance_requests, self.operations, self.instance_client),
                SystemdNotify(container.env.variables.get("NOTIFY_SOCKET", "")),
            )
            yield Monitor(ports, policy_of(settings), every_s=every_s, grace_s=grace_s)

    @asynccontextmanager
    async def _metrics(self) -> "AsyncIterator[PlatformMetrics | None]":
        """The platform's monitoring; the setting ``prometheus_url`` wins for what is asked."""
        from hermesops.automation.monitor.platform_metrics import PlatformMetrics
        from hermesops.observability.telemetry.client import MonitoringClient

        endpoint, own = (
            self.container.monitoring("hermesops-monitor"),
            self.container.env.settings.prometheus_url.rstrip("/"),
        )
        if endpoint is None and not own:
            yield None
            return
        ingest = MonitoringClient(endpoint.url, endpoint.context, keeps=True) if endpoint else None
        prometheus = (
            MonitoringClient(own, keeps=True, is_ours=False)
            if own or endpoint is None
            else MonitoringClient(f"{endpoint.url}/prometheus", endpoint.context, keeps=True)
        )
        async with aclosing(PlatformMetrics(prometheus, ingest)) as metrics:
            yield metrics

    @asynccontextmanager
    async def _same_client(self) -> AsyncIterator[Client]:
        yield self.client
