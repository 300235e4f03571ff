"""The services of one environment that read or change the registry alone, or beside it the vendor."""

from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from hermesops.app.container_parts.unconnected import Unconnected

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from hermesops.access.pki.caller_directory import CallerDirectory
    from hermesops.access.pki.callers import Callers
    from hermesops.agents.backup.directory import BackupRows
    from hermesops.agents.cells.cost.costs import Costs
    from hermesops.agents.cells.directory import Cells
    from hermesops.agents.drift.history.changes import Happening
    from hermesops.agents.drift.history.timeline import Timelines
    from hermesops.agents.health.fleet_status import Fleet
    from hermesops.agents.health.instance_list import InstanceList
    from hermesops.agents.instances.credentials.certificates import MachineCertificates
    from hermesops.agents.instances.directory import Instances
    from hermesops.agents.instances.requests.termination import TerminationPolicy
    from hermesops.agents.instances.settings.masked import MaskedSettings
    from hermesops.agents.instances.settings.policies import InstancePolicies
    from hermesops.agents.pool.directory import PoolMachines
    from hermesops.agents.rollout.operators.freezes import Freezes
    from hermesops.agents.rollout.operators.service import RolloutCommands
    from hermesops.agents.rollout.records.directory import Rollouts
    from hermesops.agents.rollout.requests import Outdated
    from hermesops.automation.monitor.fleet_observation import FleetObservation
    from hermesops.automation.monitor.service import MonitorLead
    from hermesops.machines.image.directory import Images
    from hermesops.observability.runbook.service import RunbookRecords
    from hermesops.observability.telemetry.top import FleetTop
    from hermesops.store.operations.directory import OperationDirectory
    from hermesops.store.operations.intent import AbandonNote
    from hermesops.store.registry.audit.reader import AuditLogReader
    from hermesops.users.billing.directory import BillingEvents
    from hermesops.users.billing.model_usage import ModelUsage


class RegistryServices(Unconnected):
    """Services over the registry, by noun: what commands and other faces use in its place."""

    def now(self) -> datetime:
        """The time of the registry's clock, which all its computers share."""
        return self.registry.now()

    @property
    def instances(self) -> "Instances":
        """Finds instances."""
        from hermesops.agents.instances.directory import Instances

        return Instances(self.registry)

    @property
    def instance_list(self) -> "InstanceList":
        """Lists instances with their health and releases."""
        from hermesops.agents.health.instance_list import InstanceList

        return InstanceList(self.registry)

    @property
    def instance_policies(self) -> "InstancePolicies":
        """Changes instances' places in rollouts."""
        from hermesops.agents.instances.settings.policies import InstancePolicies

        return InstancePolicies(self.registry)

    @property
    def termination_policy(self) -> "TerminationPolicy":
        """What settings say about the end of agents."""
        from hermesops.agents.instances.requests.termination import TerminationPolicy

        settings = self.env.settings
        return TerminationPolicy(timedelta(days=settings.grace_days), settings.last_backup == "required")

    @property
    def masked_settings(self) -> "MaskedSettings":
        """Reads instances' settings without their secrets."""
        from hermesops.agents.instances.settings.masked import MaskedSettings

        return MaskedSettings(self.registry)

    @property
    def timelines(self) -> "Timelines":
        """Timelines of instances. Raises as ``monitoring``."""
        from hermesops.agents.drift.history.timeline import Timelines

        return Timelines(self.registry, self.monitoring_client())

    @property
    def cells(self) -> "Cells":
        """Finds cells."""
        from hermesops.agents.cells.directory import Cells

        return Cells(self.registry)

    @property
    def pool_machines(self) -> "PoolMachines":
        """Finds machines of warm pools."""
        from hermesops.agents.pool.directory import PoolMachines

        return PoolMachines(self.registry)

    @property
    def images(self) -> "Images":
        """Finds images."""
        from hermesops.machines.image.directory import Images

        return Images(self.registry)

    @property
    def operation_directory(self) -> "OperationDirectory":
        """Finds operations."""
        from hermesops.store.operations.directory import OperationDirectory

        return OperationDirectory(self.registry)

    @property
    def abandon(self) -> "Callable[..., Coroutine[Any, Any, AbandonNote]]":
        """Closes an operation's row; ``hermesops.store.operations.runner.abandon`` in this environment's registry."""
        from hermesops.store.operations.runner import abandon

        return partial(abandon, registry=self.registry)

    @property
    def backup_rows(self) -> "BackupRows":
        """Finds backups in the registry."""
        from hermesops.agents.backup.directory import BackupRows

        return BackupRows(self.registry)

    @property
    def billing_events(self) -> "BillingEvents":
        """Finds Stripe's events."""
        from hermesops.users.billing.directory import BillingEvents

        return BillingEvents(self.registry)

    @property
    def audit(self) -> "AuditLogReader":
        """Reads and verifies the audit log."""
        from hermesops.store.registry.audit.reader import AuditLogReader

        return AuditLogReader(self.registry.audit, self.registry_place.anchor)

    # Access

    @property
    def machine_certificates(self) -> "MachineCertificates":
        """Finds and revokes machines' certificates."""
        from hermesops.agents.instances.credentials.certificates import MachineCertificates

        return MachineCertificates(self.registry)

    @property
    def callers(self) -> "Callers":
        """Services that may call the relay."""
        from hermesops.access.pki.callers import Callers

        authority = self.authority
        return Callers(self.registry, authority.load, environment=self.env.name, life=authority.life)

    @property
    def caller_directory(self) -> "CallerDirectory":
        """Certificates of services that may call the relay."""
        from hermesops.access.pki.caller_directory import CallerDirectory

        return CallerDirectory(self.registry)

    # The fleet

    @property
    def fleet(self) -> "Fleet":
        """Reads the state of the fleet."""
        from hermesops.agents.health.fleet_status import Fleet

        return Fleet(self.registry, self.env.settings.monitoring, self.env.settings.data_gb)

    @property
    def fleet_observation(self) -> "FleetObservation":
        """Asks JustAVPS and agents how the fleet is."""
        from hermesops.automation.monitor.fleet_observation import FleetObservation

        return FleetObservation(self.registry, self.vendor, self.env.name)

    @property
    def fleet_top(self) -> "FleetTop":
        """Orders instances by figures of the platform's monitoring."""
        from hermesops.observability.telemetry.top import FleetTop

        return FleetTop(self.registry, self.require_monitoring)

    @property
    def model_usage(self) -> "ModelUsage":
        """Sums what agents used of models."""
        from hermesops.users.billing.model_usage import ModelUsage

        return ModelUsage(self.registry)

    @property
    def read_costs(self) -> "Callable[[], Coroutine[Any, Any, Costs]]":
        """Reads what the environment's machines cost."""
        from hermesops.agents.cells.cost.costs import costs_of

        return partial(costs_of, self.registry, self.vendor, self.env.name)

    @property
    def read_happenings(self) -> "Callable[[datetime], Coroutine[Any, Any, tuple[Happening, ...]]]":
        """Reads what happened to the fleet since a moment."""
        from hermesops.agents.drift.service import happenings

        return lambda since: happenings(self.registry, self.engine, since, self.report)

    @property
    def monitor_lead(self) -> "MonitorLead":
        """Which of the monitors acts."""
        from hermesops.automation.monitor.service import MonitorLead

        return MonitorLead(self.registry)

    # Rollouts

    @property
    def rollouts(self) -> "Rollouts":
        """Finds rollouts and reads what is recorded of them; those of a session are started and run."""
        from hermesops.agents.rollout.records.directory import Rollouts

        return Rollouts(self.registry)

    @property
    def rollout_commands(self) -> "RolloutCommands":
        """Operators' commands to rollouts."""
        from hermesops.agents.rollout.operators.service import RolloutCommands

        return RolloutCommands(self.env, self.registry)

    @property
    def freezes(self) -> "Freezes":
        """Sets, lifts and lists freezes."""
        from hermesops.agents.rollout.operators.freezes import Freezes

        return Freezes(self.registry)

    @property
    def outdated(self) -> "Outdated":
        """The instances that no rollout has brought up to date."""
        from hermesops.agents.rollout.requests import Outdated

        return Outdated(self.registry, self.env.settings)

    # Runbooks

    @property
    def runbook_records(self) -> "RunbookRecords":
        """Fills runbooks and keeps the transcripts of their runs; opens the registry only then."""
        from hermesops.observability.runbook.service import RunbookRecords

        return RunbookRecords(lambda: self.registry)
