"""The parts of one environment that are made without a connection to the vendor or to machines."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.access.secrets.environment import endpoint_of, platform_url_of
from hermesops.base import assets, child_environment
from hermesops.base.narration import Reporter, Warn, warn
from hermesops.errors import Hint, UnavailableError, UsageError
from hermesops.model.cell import PLATFORM
from hermesops.model.certificate import OURS
from hermesops.settings.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hermesops.access.pki.authority import Authority
    from hermesops.access.pki.certificates import Certificates
    from hermesops.access.registry_place import RegistryPlace
    from hermesops.access.secrets.endpoint import Endpoint
    from hermesops.access.secrets.store import Secrets
    from hermesops.agents.backup.recovery_records import RecoveryRecords, StoredRecords
    from hermesops.agents.backup.service import BackupStore
    from hermesops.agents.cells.changes.baselines import Baselines
    from hermesops.agents.cells.changes.environment_guard import Guards
    from hermesops.agents.cells.changes.saved_previews import SavedPreviews
    from hermesops.agents.cells.service import StackUps
    from hermesops.agents.cells.stack.stacks import CellStacks
    from hermesops.agents.cells.stack.state_repair import CellStates
    from hermesops.agents.instances.credentials.certificates import CertificateAuthority
    from hermesops.agents.instances.requests.mass_changes import MassChanges
    from hermesops.agents.rollout.requests import RolloutRequests
    from hermesops.app.container_parts.world_adapters import WorldAdapters
    from hermesops.infra.engine.embedded.state.bucket import BucketAccess
    from hermesops.infra.engine.interface import Engine
    from hermesops.infra.engine.options import Program
    from hermesops.infra.stacks.fleet import CellPrograms
    from hermesops.machines.converge import Converger
    from hermesops.machines.image.definition import AgentPins
    from hermesops.machines.release import Releases
    from hermesops.machines.release.builder.build import Builder
    from hermesops.machines.release.service import ReleaseChanges
    from hermesops.machines.release.signing import ReleaseKey
    from hermesops.model.cell import CellSpec
    from hermesops.model.check import Contradiction
    from hermesops.model.operation import OperationKind
    from hermesops.model.stack import StackRef
    from hermesops.observability.telemetry.client import MonitoringClient
    from hermesops.observability.telemetry.endpoint import MonitoringEndpoint
    from hermesops.observability.telemetry.shown_alerts import Alerts
    from hermesops.platform.parts.tls import HostCertificates
    from hermesops.store.operations.kinds import ApprovedList
    from hermesops.store.operations.lease import LeaseKeeper
    from hermesops.store.operations.runner import Handler, Operations
    from hermesops.store.registry import Registry
    from hermesops.vendor.justavps import Client

_UNMONITORED = "no monitoring is known here: monitoring.url is empty, and the local world has none"

_TURN_S = 900.0
"""Seconds to wait for another run of a cell's stack; a cell of new machines takes minutes."""


class Unconnected:
    """The parts of one environment that are made without a connection, each when it is first asked for."""

    def __init__(self, env: Environment, report: Reporter, warn: Warn = warn) -> None:
        self.env = env
        self.report = report
        self._warn = warn
        self.approved_list: ApprovedList | None = None
        """The signed list with which an operator terminates or resizes many instances."""

    @cached_property
    def endpoint(self) -> "Endpoint":
        """The vendor's API and the model router."""
        return endpoint_of(self.env)

    @cached_property
    def secrets(self) -> "Secrets":
        """Keys and passwords that hermesops itself needs."""
        from hermesops.access.secrets.environment import secrets_of

        return secrets_of(self.env)

    @property
    def api_key_file(self) -> Path:
        """A file with the API key, for programs that take nothing else."""
        from hermesops.access.secrets.catalog import API_KEY

        given = self.endpoint.api_key_file
        return given or self.secrets.lend(API_KEY, self.endpoint.api_key)

    @property
    def router_key(self) -> bytes:
        """What signs agents' tokens for the model router."""
        return self.router_keys[0]

    @property
    def router_keys(self) -> tuple[bytes, ...]:
        """The same, and those of before whose tokens count still."""
        from hermesops.access.secrets.environment import router_keys_of

        return router_keys_of(self.env, self.endpoint, self.secrets)

    @property
    def model_token_life(self) -> timedelta:
        """For how long an agent's token for the model router counts."""
        return timedelta(days=self.env.settings.model.token_days)

    @cached_property
    def registry(self) -> "Registry":
        """Instances, cells, images, operations, leases, audit."""
        return self.registry_place.open()

    @cached_property
    def registry_place(self) -> "RegistryPlace":
        """Where the registry is, with its copies and the audit's anchor."""
        from hermesops.access.registry_place import RegistryPlace

        return RegistryPlace(self.env, self._warn)

    @cached_property
    def backup_store(self) -> "BackupStore":
        """Where backups and recovery records are; no registry is needed."""
        from hermesops.agents.backup.service import BackupStore
        from hermesops.app.container_parts.local_world import object_store_of

        start = partial(object_store_of, self.env, self.report)
        return BackupStore(self.env, self.secrets, partial(self.adapters.local_store, start))

    @property
    def stored_records(self) -> "StoredRecords":
        """What of instances outlives the registry, in the object store; no registry is needed."""
        from hermesops.agents.backup.recovery_records import StoredRecords

        return StoredRecords(self.backup_store.find, self.env.name)

    @property
    def recovery_records(self) -> "RecoveryRecords":
        """Keeps the same equal to the registry."""
        from hermesops.agents.backup.recovery_records import RecoveryRecords

        return RecoveryRecords(self.registry, self.stored_records, self.registry_place.sealer)

    @cached_property
    def releases(self) -> "Releases":
        """The store of releases."""
        from hermesops.infra.engine.embedded.state.storage import open_storage
        from hermesops.machines.release import Releases
        from hermesops.machines.release.signing import trust_of

        where = self.env.settings.releases or self.env.folder / "releases"
        store = open_storage(where, setting="releases", access=self.bucket_access)
        return Releases(store, trust_of(self.env, store), self.release_key)

    @cached_property
    def release_key(self) -> "ReleaseKey":
        """Signs releases."""
        from hermesops.machines.release.signing import ReleaseKey

        return ReleaseKey(self.env, self.secrets)

    @cached_property
    def release_changes(self) -> "ReleaseChanges":
        """Changes which releases there are."""
        from hermesops.machines.release.service import ReleaseChanges

        return ReleaseChanges(self.releases, self.release_key, self._release_builder, self.registry, self.hold_lease)

    def _release_builder(self, pins: "AgentPins | None" = None) -> "Builder":
        from hermesops.machines.image.download import NEWEST_GLIBC, Pip
        from hermesops.machines.release.builder.resolver import Resolver
        from hermesops.machines.release.service import parts_of

        packages = self.env.for_child(child_environment.PACKAGES)
        downloads = Pip(packages, self.env.cache / "packages")
        return self.adapters.release_builder(
            self.releases,
            Resolver(packages, glibc=NEWEST_GLIBC),
            downloads,
            parts_of(pins or self.agent_pins, downloads),
            self.env.cache / "releases",
            self.report,
        )

    @property
    def agent_pins(self) -> "AgentPins":
        """The agent in the image of this environment.

        Raises:
            UsageError: Setting ``image`` names one that is not there, or one without an agent.
        """
        from hermesops.machines.image import definition

        name = self.env.settings.image
        pins = definition.load(assets.folder("images") / name).agent
        if pins is None:
            raise UsageError(f"image {name} has no agent", hint="set image to one that has")
        return pins

    @cached_property
    def authority(self) -> "CertificateAuthority":
        """Signs certificates of machines and services."""
        from hermesops.agents.instances.credentials.certificates import CertificateAuthority

        return CertificateAuthority(self.env, self.registry, self.secrets, self._certificate_life)

    @property
    def host_certificates(self) -> "HostCertificates":
        """Issues certificates of hosts of the platform as files."""
        from hermesops.platform.parts.tls import HostCertificates

        return HostCertificates(self.env.name, self.registry, self._load_authority)

    @cached_property
    def certificates(self) -> "Certificates":
        """Issues machines' certificates; reads the authority's key when it first does."""
        from hermesops.access.pki.certificates import Certificates

        return Certificates(
            self.registry,
            cache(self._load_authority),
            environment=self.env.name,
            url=platform_url_of(self.env),
            life=self._certificate_life,
        )

    def monitoring(self, name: str = OURS) -> "MonitoringEndpoint | None":
        """Monitoring of the platform; ``None`` when the environment has none.

        Args:
            name: Of this process in its certificate, and label ``source`` of what it writes.

        Raises:
            UnavailableError: It is the local world's, which is not up.
        """
        from hermesops.observability.telemetry.addresses import monitoring_url_of
        from hermesops.observability.telemetry.endpoint import MonitoringEndpoint

        url = monitoring_url_of(self.env)
        return MonitoringEndpoint(url, partial(self.authority.client_context, name)) if url else None

    def _load_authority(self) -> "Authority":
        return self.authority.load()

    @property
    def _certificate_life(self) -> timedelta:
        return timedelta(days=self.env.settings.certificate_days)

    @cached_property
    def adapters(self) -> "WorldAdapters":
        """What differs between real and simulated machines."""
        from hermesops.app.container_parts.world_adapters import adapters_of

        return adapters_of(self.env)

    @property
    def mass_changes(self) -> "MassChanges":
        """Limits how many instances are terminated or resized a day."""
        from hermesops.agents.instances.requests.mass_changes import MassChanges

        return MassChanges(self.env, self.registry, self.approved_list)

    def require_endpoint(self) -> "MonitoringEndpoint":
        """The way to the platform's monitoring.

        Raises:
            UsageError: There is none.
        """
        endpoint = self.monitoring()
        if endpoint is None:
            raise UsageError(_UNMONITORED, hint=self._monitoring_hint())
        return endpoint

    def monitoring_client(self) -> "MonitoringClient | None":
        """Asks the platform's monitoring; ``None`` where there is none. Raises as ``monitoring``."""
        from hermesops.observability.telemetry.client import MonitoringClient

        endpoint = self.monitoring()
        return MonitoringClient(endpoint.url, endpoint.context) if endpoint else None

    def require_monitoring(self) -> "MonitoringClient":
        """The same for a command that cannot work without it.

        Raises:
            UsageError: There is none.
        """
        client = self.monitoring_client()
        if client is None:
            raise UsageError(_UNMONITORED, hint=self._monitoring_hint())
        return client

    def _monitoring_hint(self) -> Hint:
        """The way to monitoring here; a simulated world's machines run none."""
        if not self.env.is_local or self.adapters.is_simulated:
            return Hint("set monitoring.url to https://HOST:PORT")
        return Hint(("local", "up", "--monitoring"), "runs it, or set monitoring.url to https://HOST:PORT")

    def alerts(self) -> "Alerts":
        """Alerts and silences.

        Raises:
            UsageError: There is no monitoring here.
        """
        from hermesops.observability.runbook.document import load, names
        from hermesops.observability.runbook.service import is_about_instance
        from hermesops.observability.telemetry.shown_alerts import Alerts, Steps

        folder = assets.folder("runbooks")

        def steps_of(name: str) -> Steps | None:
            if name not in names(folder):
                return None
            runbook = load(folder, name)
            if not runbook.steps:
                return Steps.NONE
            return Steps.OF_INSTANCE if is_about_instance(runbook) else Steps.OF_ALL

        return Alerts(self.registry, self.require_monitoring(), cache(steps_of))

    @property
    def has_monitoring(self) -> bool:
        """Whether there is monitoring to ask; a local world that is down has none."""
        from hermesops.observability.telemetry.addresses import monitoring_url_of

        try:
            return bool(monitoring_url_of(self.env))
        except UnavailableError:
            return False

    @cached_property
    def engine(self) -> "Engine":
        """What runs Pulumi programs."""
        return self._engine_at(self.pulumi_backend)

    @cached_property
    def platform_engine(self) -> "Engine":
        """The same for the platform's stack; of a local world's its state is here, as the platform has the other."""
        return self._engine_at(str(self.env.folder / "pulumi")) if self.env.is_local else self.engine

    @property
    def bucket_access(self) -> "BucketAccess":
        """What opens the buckets of releases and of Pulumi's state."""
        from hermesops.infra.engine.embedded.state.bucket import BucketAccess

        return BucketAccess(self.env.settings.platform.key_file, self.env.settings.platform.ca_file)

    def _engine_at(self, backend: str) -> "Engine":
        from hermesops.infra.engine import EngineConfig, make_engine
        from hermesops.infra.engine.embedded.state.storage import open_storage

        return make_engine(
            self.env.settings.pulumi.engine,
            EngineConfig(
                backend=open_storage(backend, access=self.bucket_access),
                passphrase=self.pulumi_passphrase,
                environment=self._plugin_environment(),
                token_of=self._token_of,
            ),
            production=self.env.is_production,
        )

    def _plugin_environment(self) -> dict[str, str]:
        """Environment of Pulumi's plugins: they order machines, so they get the vendor's key and no other secret."""
        is_bucket = self.pulumi_backend.startswith("s3://") or self.env.settings.secrets.home.startswith("aws:")
        names = (child_environment.PULUMI, *((child_environment.BUCKET,) if is_bucket else ()))
        made = self.env.for_hermesops(*names, secrets={"HERMESOPS_API_KEY", "HERMESOPS_SECRET_API_KEY"})
        return {**made, **self.bucket_access.environment()}

    @property
    def pulumi_backend(self) -> str:
        """Folder or URL of Pulumi's state."""
        return self.env.settings.pulumi.backend or str(self.env.folder / "pulumi")

    def pulumi_passphrase(self) -> str:
        """What encrypts secrets in Pulumi's state; made on first use."""
        from hermesops.access.secrets.catalog import PULUMI_PASSPHRASE
        from hermesops.infra.engine.options import read_passphrase

        file = self.env.settings.pulumi.passphrase_file
        if file is not None:
            return read_passphrase(file)
        return self.secrets.made(PULUMI_PASSPHRASE, secrets.token_urlsafe(32))

    async def state_opens(self) -> str:
        """Open the state of one cell with the passphrase; all have the same.

        Raises:
            RefusedError: It is another passphrase.
            BrokenInvariantError: The state is damaged.
        """
        from hermesops.infra.engine.embedded.state.secrets import PassphraseVault

        for cell in self.registry.cells.list():
            try:
                document = await self.cell_stacks.export(cell.name)
            except UsageError:  # it has rows and no stack yet
                continue
            sealed = document.get("deployment", {}).get("secrets_providers") or {}
            salt = str((sealed.get("state") or {}).get("salt", ""))
            if salt:
                PassphraseVault(self.pulumi_passphrase, salt=salt, keys={}, stack=cell.name).unlock()
                return f"opens the state of {cell.name}"
        return "readable; no state needs it yet"

    def _token_of(self, stack: "StackRef") -> tuple[int, int] | None:
        subject = f"stack/{stack.project}/{stack.stack}"
        try:
            leases = self.registry.leases.list()
        except UnavailableError:
            if stack.project != PLATFORM:  # which is brought up to have a registry again
                raise
            return None
        held = (lease for lease in leases if lease.subject == subject)
        return next(((lease.epoch, lease.counter) for lease in held), None)

    @cached_property
    def programs(self) -> "CellPrograms":
        """Cells' Pulumi programs."""
        from hermesops.infra.stacks.fleet import CellPrograms

        return CellPrograms(self.env.settings.data_gb)

    @cached_property
    def cell_stacks(self) -> "CellStacks":
        """Cells' Pulumi stacks."""
        from hermesops.agents.cells.stack.progress import report_problem, report_progress
        from hermesops.agents.cells.stack.stacks import CellStacks
        from hermesops.store.operations.lease import LeaseKeeper

        return CellStacks(
            self.registry,
            lambda: self.engine,
            lambda: self.programs,
            partial(LeaseKeeper, self.registry, wait_s=_TURN_S),
            self.guards.judge,
            parallel=self.env.settings.parallel_cells,
            report=partial(report_progress, self.report),
            warn=partial(report_problem, self.report),
        )

    @cached_property
    def guards(self) -> "Guards":
        """Checks every run of a cell's stack beforehand."""
        from hermesops.agents.cells.changes.environment_guard import Guards

        return Guards(self.env, self.registry, self.vendor)

    @property
    def baselines(self) -> "Baselines":
        """Compares programs with those of main, without a secret."""
        from hermesops.agents.cells.changes.baselines import Baselines
        from hermesops.app.container_parts.aws_program import aws_program

        def specs() -> "Iterator[CellSpec]":
            return (self.registry.cells.spec(cell.name) for cell in self.registry.cells.list())

        def platform() -> "Program | None":
            return aws_program(self.env, self.pulumi_backend) if self.env.settings.platform.account else None

        return Baselines(self.env.name, specs, self.programs, platform)

    @cached_property
    def saved_previews(self) -> "SavedPreviews":
        """Previews of stacks that operators save and sign."""
        from hermesops.agents.cells.changes.saved_previews import SavedPreviews

        return SavedPreviews(self.env, lambda: self.engine.name)

    @cached_property
    def stack_ups(self) -> "StackUps":
        """``stack up`` as an operation."""
        from hermesops.agents.cells.service import StackUps

        return StackUps(
            self.env,
            self.registry,
            self.cell_stacks,
            self.guards,
            self.saved_previews,
            self.make_operations,
            self.report,
        )

    @property
    def base_variables(self) -> "Mapping[str, object]":
        """What role ``hermes_base`` has to be told."""
        return {
            "hermes_base_broker_addresses": list(self.endpoint.broker_addresses),
            "hermes_base_daemon_port": self.endpoint.daemon_port,
        }

    @cached_property
    def converger(self) -> "Converger":
        """Applies roles to machines."""
        from hermesops.machines.converge import Access, Converger

        return Converger(assets.folder("ansible"), Access(self.endpoint.api_url, self.api_key_file))

    def make_operations(
        self, handlers: "Mapping[OperationKind, Handler]", *, report: Reporter | None = None
    ) -> "Operations":
        """Runs operations."""
        from hermesops.store.operations.runner import Operations

        return Operations(self.registry, handlers, report or self.report)

    @cached_property
    def rollout_requests(self) -> "RolloutRequests":
        """Checks requests for rollouts."""
        from hermesops.agents.rollout.requests import RolloutRequests

        return RolloutRequests(self.registry, self.releases, self.env.settings, self.monitoring_client)

    @cached_property
    def cell_states(self) -> "CellStates":
        """Repairs states of cells' stacks."""
        from hermesops.agents.cells.stack.state_repair import CellStates

        return CellStates(self.engine, self.registry, self.cell_stacks.hold_lease)

    def contradictions(self) -> "list[Contradiction]":
        """Contradictions in the registry, breaks of the audit's chain included."""
        from hermesops.model.check import Contradiction

        broken = self.registry.audit.check().findings
        chain = (Contradiction(f"audit/{one.id}", one.what, Hint(("audit", "verify"))) for one in broken)
        return [*self.registry.consistency.contradictions(), *chain]

    def hold_lease(self, subject: str) -> "LeaseKeeper":
        """Hold the lease of a subject while the context lasts; refused at once if another process holds it."""
        from hermesops.store.operations.lease import LeaseKeeper

        return LeaseKeeper(self.registry, subject)

    @asynccontextmanager
    async def vendor(self) -> AsyncIterator["Client"]:
        """Connect to the vendor's API alone; no registry is needed."""
        from hermesops.vendor.justavps import Client

        async with Client(self.endpoint.api_url, self.endpoint.api_key) as client:
            yield client
