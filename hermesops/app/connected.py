"""The parts of one environment that use connections to the vendor and to machines, as ``Container.connect`` opens them.

Each is made when it is first asked for, by a function of ``hermesops.app.parts``.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.app import parts

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.vendor.channel.agent import AgentApi
    from hermesops.vendor.justavps import Client


@dataclass(frozen=True)
class Connected:
    """All parts of one environment that need connections, while these are open.

    Attributes:
        is_dry_run: Whether requests write nothing: their operations are for ``change_previews`` only.
    """

    container: "Container"
    client: "Client"
    agents: "AgentApi"
    is_dry_run: bool = False

    def dry_run(self) -> "Connected":
        """A copy of these parts for dry runs: requests run every check and write nothing."""
        return replace(self, is_dry_run=True)

    # Operations

    operations = cached_property(parts.operations.operations)
    handlers = parts.operations.handlers
    make_worker = parts.operations.make_worker

    # Instances

    instance_client = cached_property(parts.instances.instance_client)
    instance_keys = cached_property(parts.access.instance_keys)
    preflight = cached_property(parts.instances.preflight)
    admission = cached_property(parts.instances.admission)
    bulk_provision = cached_property(parts.instances.bulk_provision)
    opener = cached_property(parts.instances.opener)
    placement = cached_property(parts.instances.placement)
    instance_requests = cached_property(parts.instances.instance_requests)
    change_previews = cached_property(parts.instances.change_previews)
    agent_previews = cached_property(parts.instances.agent_previews)
    instance_reports = cached_property(parts.instances.instance_reports)
    instance_waits = cached_property(parts.instances.instance_waits)
    instance_logs = cached_property(parts.monitoring.instance_logs)
    operator_access = cached_property(parts.instances.operator_access)
    state_comparisons = cached_property(parts.instances.state_comparisons)
    snapshots = cached_property(parts.instances.snapshots)
    upkeep = cached_property(parts.instances.upkeep)
    proxy_tokens = cached_property(parts.instances.proxy_tokens)
    model_tokens = cached_property(parts.instances.model_tokens)
    certificate_renewal = cached_property(parts.access.certificate_renewal)

    # Backups

    backups = cached_property(parts.backups.backups)
    restores = cached_property(parts.backups.restores)
    drills = cached_property(parts.backups.drills)

    # Machines

    pools = cached_property(parts.cells.pools)
    image_builder = cached_property(parts.machines.image_builder)
    image_builds = cached_property(parts.machines.image_builds)
    release_transfer = parts.machines.release_transfer
    verify = parts.machines.verify
    verify_without_user = parts.machines.verify_without_user
    drift = cached_property(parts.drift.drift)
    drill_machines = cached_property(parts.automation.drill_machines)

    # Rollouts, users, automation

    rollouts = cached_property(parts.rollouts.rollouts)
    billing = cached_property(parts.users.billing)
    paid_agents = cached_property(parts.users.paid_agents)
    sweep = cached_property(parts.users.sweep)
    seen_subscriptions = cached_property(parts.users.seen_subscriptions)
    request_carrier = cached_property(parts.users.request_carrier)
    operator_request_carrier = cached_property(parts.console.carrier)
    make_connection_work = parts.connections.connection_work
    jobs = cached_property(parts.automation.jobs)
    monitor = parts.monitoring.monitor
