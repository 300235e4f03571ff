"""Doctor, scheduled jobs, runbooks and their drills."""

from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermesops.agents.drill.service import DrillMachines, RunbookDrills
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.automation.doctor.environment_checks import EnvironmentChecks
    from hermesops.automation.jobs.service import Jobs
    from hermesops.errors import UnavailableError
    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.runbook.command import Ended
    from hermesops.observability.runbook.fault import AtVendor, Fault
    from hermesops.observability.runbook.service import RunbookRecords


def checks(container: "Container") -> "EnvironmentChecks":
    """Checks of this computer and of the environment."""
    from hermesops.automation.doctor.computer import room_of
    from hermesops.automation.doctor.environment_checks import EnvironmentChecks
    from hermesops.platform.bootstrap.service import account_checks

    async def bucket() -> str:
        async with container.connect() as connected:
            return (await connected.backups.keys.reach()).name

    async def machines() -> str:
        from hermesops.automation.monitor.fleet_observation import reach_machines

        async with container.connect() as connected:
            return await reach_machines(container.registry, connected.instance_client)

    return EnvironmentChecks(
        env=container.env,
        runs_machines=container.env.is_local and not container.adapters.is_simulated,
        place=lambda: container.registry_place,
        registry=lambda: container.registry,
        secrets=lambda: container.secrets,
        endpoint=lambda: container.endpoint,
        vendor=container.vendor,
        machines=machines,
        router_key=lambda: container.router_key,
        authority=lambda: container.authority,
        release_key=lambda: container.release_key,
        room=partial(room_of, container.env.world),
        bucket=bucket,
        account=account_checks(container.env),
        state_opens=container.state_opens,
        messengers=lambda: container.messenger_settings,
    )


def jobs(connected: "Connected") -> "Jobs":
    """The scheduled jobs of this environment, for workers and for ``job run``."""
    from hermesops.automation.jobs.service import Jobs

    container = connected.container
    return Jobs(
        settings=container.env.settings,
        registry=container.registry,
        operations=connected.operations,
        backups=connected.backups,
        drills=connected.drills,
        rollouts=connected.rollouts,
        pools=connected.pools,
        pool_previews=container.pool_previews,
        upkeep=connected.upkeep,
        proxy_tokens=connected.proxy_tokens,
        model_tokens=connected.model_tokens,
        billing=connected.billing,
        user_requests=connected.request_carrier,
        operator_requests=connected.operator_request_carrier,
        settings_copying=container.settings_copying,
        plan_statements=container.plan_statements,
        metering=container.metering,
        sweep=connected.sweep,
        connections=cache(connected.make_connection_work),
    )


def jobs_without_connection(container: "Container", problem: "UnavailableError") -> "Jobs":
    """The scheduled jobs where no connection can be made: only for a list of them and of their last runs."""
    from hermesops.automation.jobs.service import Jobs

    return Jobs.without_connection(container.env.settings, container.registry, problem)


def runbook_records(container: "Container") -> "RunbookRecords":
    """Fills runbooks and keeps the transcripts of their runs; opens the registry only then."""
    from hermesops.observability.runbook.service import RunbookRecords

    return RunbookRecords(lambda: container.registry)


def runbook_drills(container: "Container") -> "RunbookDrills":
    """Drills of runbooks, each with connections of its own, as a fault may break them."""
    from hermesops.agents.drill.service import RunbookDrills
    from hermesops.base import assets
    from hermesops.observability.runbook.command import run_command
    from hermesops.observability.runbook.service import variables_of

    env = container.env

    async def provision(fault: "Fault") -> "Instance":
        async with container.connect() as connected:
            return await connected.drill_machines.provision(fault)

    async def at_vendor(instance: "Instance", action: "AtVendor") -> None:
        async with container.connect() as connected:
            await connected.drill_machines.at_vendor(instance, action)

    async def command(words: tuple[str, ...], show: "Callable[[str], None]") -> "Ended":
        return await run_command(words, environment=env.name, variables=variables_of(env), show=show)

    folder = assets.folder("runbooks")
    return RunbookDrills(container.registry, env.is_local, folder, provision, at_vendor, command)


def drill_machines(connected: "Connected") -> "DrillMachines":
    """Machines of warm pools for drills of runbooks."""
    from hermesops.agents.drill.service import DrillMachines

    registry = connected.container.registry
    return DrillMachines(registry, connected.pools, connected.admission, connected.operations, connected.client)
