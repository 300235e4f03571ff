"""Actions that pages offer: those that the rows of their subject do not refuse, by the checks of their commands."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from hermesops.agents.instances.requests import eligibility
from hermesops.agents.instances.requests.eligibility import Requirement, is_ending
from hermesops.console.actions.action import About, ActionRequest, Subject
from hermesops.console.actions.rollouts import CommandWork, RollBackWork
from hermesops.console.actions.table import about
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus

if TYPE_CHECKING:
    from hermesops.agents.rollout.operators.service import RolloutCommands
    from hermesops.agents.rollout.ports import Records
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.operation import Operation
    from hermesops.store.operations.directory import OperationHistory


REQUIREMENTS: Mapping[str, Sequence[Requirement]] = {
    "restart": (eligibility.RESTART,),
    "reboot": (eligibility.REBOOT,),
    "suspend": (eligibility.SUSPEND,),
    "provision": (eligibility.PROVISION,),
    "resume": (eligibility.RESUME,),
    "back-up": (eligibility.BACK_UP,),
    "restore": (eligibility.RESTORE, eligibility.RESTORE_ANEW),
    "move": (eligibility.RELOCATE,),
    "resize": (eligibility.RESIZE, eligibility.RELOCATE),
    "configure": (eligibility.CONFIGURE,),
    "settings-back": (eligibility.CONFIGURE,),
    "terminate": (eligibility.TERMINATE, eligibility.SCHEDULE_TERMINATION),
    "undo-termination": (eligibility.CANCEL_TERMINATION,),
    "accept-size": (),  # drift names it: no row has the size at JustAVPS
}
"""Of each action of an instance; several where its values decide which of them it needs."""


def of_instance(
    instance: "Instance", unfinished: "Collection[Operation]", condition: Condition | None
) -> Sequence[str]:
    """Names of the actions of an instance that its rows do not refuse; its machine or JustAVPS may do so yet.

    Args:
        condition: Of an instance that should run; ``None`` where that is not known.
    """
    if instance.status is InstanceStatus.TERMINATED and not unfinished:
        return []  # a termination may be repeated, and does nothing
    is_well = instance.status is InstanceStatus.RUNNING and condition is Condition.HEALTHY
    needless = {"resume": is_well, "undo-termination": not is_ending(instance, unfinished)}
    return [
        name
        for name in about(About.INSTANCE)
        if any(requirement.allows(instance, unfinished) for requirement in REQUIREMENTS[name])
        and not needless.get(name, False)
    ]


def of_rollout(commands: "RolloutCommands", records: "Records") -> Sequence[str]:
    """Names of the actions of a rollout that its state does not refuse."""
    rollout_id = records.rollout.id
    request = ActionRequest(Subject(rollout_id, rollout_id, rollout_id, ""))
    offered = []
    for name, action in about(About.ROLLOUT).items():
        if isinstance(action.work, CommandWork | RollBackWork) and commands.allows(
            records, action.work.decide(request)
        ):
            offered.append(name)
    return offered


def of_operation(history: "OperationHistory") -> Sequence[str]:
    """Names of the actions of an operation: none once it has ended, and no abandoning while a process works on it."""
    if history.operation.status.has_ended:
        return []
    return [name for name in about(About.OPERATION) if name != "abandon" or history.is_idle]
