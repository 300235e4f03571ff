"""What a machine's own account differs in from its row. Pure."""

from collections.abc import Iterator, Sequence

from hermesops.drift.finding import Kind
from hermesops.drift.fleet_snapshot import MachineSnapshot, Rebooted
from hermesops.model.check import Verdict
from hermesops.model.instance import Instance, InstanceStatus

_NAMED = 5
"""Tasks or checks that a finding names; there may be dozens."""

_LONGEST = 200


def told_differences(
    instance: Instance, told: MachineSnapshot, rebooted: Rebooted | None
) -> Iterator[tuple[Kind, str]]:
    """Kinds and words of everything that differs.

    Args:
        instance: Whose machine it should be.
        told: What it says of itself.
        rebooted: That it has booted since it was last looked at.
    """
    if told.silence:
        yield Kind.SILENT, f"it does not answer: {told.silence}"
        return
    if rebooted is not None:
        yield Kind.REBOOTED, f"it has booted since {rebooted.since:%Y-%m-%d %H:%M} UTC, when it was last looked at"
    yield from _identity(instance, told)
    if told.changed:
        yield Kind.FILES_CHANGED, f"the roles would change: {_named(told.changed)}"
    if told.roles_unseen:
        yield Kind.ROLES_UNSEEN, told.roles_unseen
    for kind, verdict in ((Kind.CHECK_FAILED, Verdict.FAILED), (Kind.CHECK_UNSEEN, Verdict.UNKNOWN)):
        if checks := [f"{check.name}: {check.seen}" for check in told.checks if check.verdict is verdict]:
            yield kind, _named(checks)


def _named(several: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    more = f" and {len(several) - _NAMED} more" if len(several) > _NAMED else ""
    return "; ".join(one[:_LONGEST] for one in several[:_NAMED]) + more


def _identity(instance: Instance, told: MachineSnapshot) -> Iterator[tuple[Kind, str]]:
    if told.instance_id is None:
        if instance.status is InstanceStatus.RUNNING:
            yield Kind.NOT_PERSONALISED, "it reports no instance"
    elif told.instance_id != instance.id:
        seen = f"by its own account it is of instance {told.instance_id}, by the registry's of {instance.id}"
        yield Kind.FOREIGN_IDENTITY, f"{seen}; what is on it may be another user's"
    elif not told.is_current:
        yield Kind.PAYLOAD_DIFFERS, "it was not handed what the registry says of its user, or only in part"
