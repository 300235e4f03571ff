"""Parts for rollouts, rollbacks and freezes of releases."""

from functools import partial
from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.agents.rollout.operators.freezes import Freezes
    from hermesops.agents.rollout.operators.rollbacks import Rollbacks
    from hermesops.agents.rollout.operators.service import RolloutCommands
    from hermesops.agents.rollout.plan.checks import Outdated, RolloutRequests
    from hermesops.agents.rollout.plan.losses import RolloutLosses
    from hermesops.agents.rollout.ports import Machines
    from hermesops.agents.rollout.records.directory import Rollouts as RolloutDirectory
    from hermesops.agents.rollout.service import Rollouts
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.rollout.records import Rollout


def directory(container: "Container") -> "RolloutDirectory":
    """Finds rollouts and reads their records; ``Connected.rollouts`` starts and runs them."""
    from hermesops.agents.rollout.records.directory import Rollouts

    return Rollouts(container.registry)


def commands(container: "Container") -> "RolloutCommands":
    """Operators' commands to rollouts: pause, resume, promote, approve, abort, retry and roll back."""
    from hermesops.agents.rollout.operators.service import RolloutCommands

    return RolloutCommands(container.env, container.registry)


def requests(container: "Container") -> "RolloutRequests":
    """Checks and previews requests for rollouts, before anything starts."""
    from hermesops.agents.rollout.plan.checks import RolloutRequests

    settings = container.env.settings
    return RolloutRequests(container.registry, container.releases, settings, container.monitoring_client)


def losses(container: "Container") -> "RolloutLosses":
    """Previews the settings that agents lose by a rollout to an older release."""
    from hermesops.agents.rollout.plan.losses import RolloutLosses

    return RolloutLosses(container.registry, container.rollout_requests, container.vendor)


def freezes(container: "Container") -> "Freezes":
    """Sets, lifts and lists freezes, which hold all rollouts."""
    from hermesops.agents.rollout.operators.freezes import Freezes

    return Freezes(container.registry)


def outdated(container: "Container") -> "Outdated":
    """The instances that no rollout has brought up to date."""
    from hermesops.agents.rollout.plan.checks import Outdated

    return Outdated(container.registry, container.env.settings)


def rollbacks(container: "Container") -> "Rollbacks":
    """Rolls one agent back to its previous release, also without a registry."""
    from hermesops.agents.rollout.operators.rollbacks import Rollbacks

    return Rollbacks(
        container.env.name,
        lambda: container.registry,
        container.vendor,
        container.hold_lease,
        lambda: container.releases,
    )


def rollouts(connected: "Connected") -> "Rollouts":
    """Starts rollouts and runs them until they end or halt."""
    from hermesops.agents.rollout.service import Rollouts

    container = connected.container
    return Rollouts(
        container.env,
        container.registry,
        container.rollout_requests,
        connected.instance_client,
        partial(_machines, connected),
        lambda: connected.operations,
        container.report,
        container.monitoring_client(),
    )


def _machines(connected: "Connected", rollout: "Rollout") -> "Machines":
    from hermesops.agents.rollout.machines.relocation import RelocatedMachines
    from hermesops.agents.rollout.machines.slots import SlotMachines
    from hermesops.agents.rollout.machines.tokens import TokenMachines
    from hermesops.model.rollout.spec import Action

    container, client, pools = connected.container, connected.instance_client, connected.pools
    action, purpose = rollout.action, rollout.title
    if action is Action.TOKENS:
        return TokenMachines(container.registry, client, connected.model_tokens.hand, rollout.release, purpose)
    if action is Action.SLOT:
        return SlotMachines(
            container.registry,
            client,
            connected.backups,
            pools,
            container.releases,
            container.hold_lease,
            connected.operations.leave,
            purpose,
        )
    # A rollout runs many operations at once, so they report nothing.
    run = partial(container.make_operations(connected.handlers(), report=lambda _: None).resume, wait_s=inf)
    requests = connected.instance_requests
    return RelocatedMachines(container.registry, client, pools, connected.drills, requests, run, purpose)
