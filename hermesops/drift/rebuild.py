"""After the registry is lost: what can be known again from vendor and machines, and what cannot, by name. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hermesops.drift.memory import Forgotten
from hermesops.model.ids import CellName, InstanceId, MachineName, UserId, is_alias, user_id_from_alias
from hermesops.model.recovery import Recovered

_GONE = (
    "the audit log and all operations: what was done before, by whom and why",
    "terminated instances, and when each instance was made (the machine's age stands for it)",
    "connections to services: users connect them anew",
    "settings before the last change, subscriptions, and the plans that cells were kept for",
    "images: hermesops image build finds or makes them again",
)


@dataclass(frozen=True)
class Left:
    """Something that stays lost until somebody looks.

    Attributes:
        name: Of a machine or a user.
        hint: The next command.
    """

    name: str
    why: str
    hint: str


@dataclass(frozen=True)
class Rebuild:
    """What a new registry will hold, and what it will lack.

    Attributes:
        left: Named, with what may be done about each.
        gone: What no machine remembers.
    """

    instances: tuple[Recovered, ...]
    left: tuple[Left, ...]
    gone: tuple[str, ...] = _GONE


def plan_rebuild(
    told: Iterable[Recovered | Forgotten],
    *,
    aliases: Sequence[str] = (),
    in_stacks: Mapping[MachineName, CellName] | None = None,
) -> Rebuild:
    """Decide what is believed.

    An instance or a user that two machines claim is believed of neither: a person has to look. But of the machines that
    one instance was on in turn, the last is believed.

    Args:
        told: What each machine of ours told.
        aliases: What operators called users; each is believed of the user whose id was made from it.
        in_stacks: Machines that the states of cells hold, where those are left.
    """
    answers = list(told)
    told_of = [answer for answer in answers if isinstance(answer, Recovered)]
    last: dict[InstanceId, int] = {}
    for claim in told_of:
        last[claim.id] = max(claim.epoch, last.get(claim.id, 0))
    claims = [claim for claim in told_of if claim.epoch == last[claim.id]]
    before = [claim for claim in told_of if claim.epoch < last[claim.id]]
    by_instance: Counter[InstanceId] = Counter(claim.id for claim in claims)
    by_user: Counter[UserId] = Counter(claim.user_id for claim in claims)
    known_as = {user_id_from_alias(alias): alias for alias in aliases if is_alias(alias)}
    believed = [
        claim.called(known_as.get(claim.user_id, ""))
        for claim in claims
        if by_instance[claim.id] == 1 and by_user[claim.user_id] == 1
    ]
    left = [
        *(_forgotten(answer) for answer in answers if isinstance(answer, Forgotten)),
        *(_contested(claim) for claim in claims if by_instance[claim.id] > 1 or by_user[claim.user_id] > 1),
        *(_former(claim) for claim in before),
        *_vanished(answers, in_stacks or {}),
        *(_nameless(claim) for claim in believed if not claim.user_alias),
    ]
    return Rebuild(tuple(sorted(believed, key=lambda one: one.machine_name)), tuple(left))


def _forgotten(one: Forgotten) -> Left:
    verb = "remove-orphan" if one.is_nobodys else "adopt"
    return Left(one.machine_name, one.why, f"hermesops fleet {verb} {one.machine_name}")


def _contested(one: Recovered) -> Left:
    why = f"it says that it is instance {one.id} of user {one.user_id}, and so does another machine"
    return Left(one.machine_name, why, f"hermesops fleet adopt {one.machine_name}")


def _former(one: Recovered) -> Left:
    why = f"instance {one.id} was on it before it changed machines: its memory is older"
    return Left(one.machine_name, why, f"hermesops fleet remove-orphan {one.machine_name}")


def _vanished(answers: Iterable[Recovered | Forgotten], in_stacks: Mapping[MachineName, CellName]) -> list[Left]:
    there = {answer.machine_name for answer in answers}
    return [
        Left(
            name,
            f"the stack of {cell} holds it, and JustAVPS lists none of that name",
            f"hermesops stack refresh {cell}",
        )
        for name, cell in sorted(in_stacks.items())
        if name not in there
    ]


def _nameless(one: Recovered) -> Left:
    return Left(one.user_id, "how operators called this user", "hermesops registry rebuild --alias NAME knows it again")
