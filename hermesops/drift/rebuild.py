"""After the registry is lost: what vendor and machines still know, and by name what is lost. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hermesops.drift.machine_identity import Forgotten
from hermesops.errors import Hint
from hermesops.model.ids import CellName, MachineId, MachineName, is_alias, user_id_from_alias
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
    """Something that stays lost until an operator acts.

    Attributes:
        name: Of a machine or a user.
    """

    name: str
    why: str
    hint: Hint


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

    A machine is believed that proves its claim and is the only one with it. Where two machines claim an instance or a
    user, neither is: root on one can write a higher epoch, so a person has to compare both.

    Args:
        aliases: What operators called users; an alias belongs to the user whose id was made from it.
        in_stacks: Machines in the states of cells, where those still exist.
    """
    answers = list(told)
    claims = list({one.machine_id: one for one in answers if isinstance(one, Recovered)}.values())
    known_as = {user_id_from_alias(alias): alias for alias in aliases if is_alias(alias)}
    rivals = _rivals(claims)
    believed = [
        claim.called(known_as.get(claim.user_id, ""))
        for claim in claims
        if not claim.doubt and not rivals[claim.machine_id]
    ]
    left = [
        *(_forgotten(answer) for answer in answers if isinstance(answer, Forgotten)),
        *(_contested(one, rivals[one.machine_id]) for one in claims if one.doubt or rivals[one.machine_id]),
        *_vanished(answers, in_stacks or {}),
        *(
            Left(
                one.user_id,
                "how operators called this user",
                Hint(("registry", "rebuild", "--alias", "NAME"), "knows it again"),
            )
            for one in believed
            if not one.user_alias
        ),
    ]
    return Rebuild(tuple(sorted(believed, key=lambda one: one.machine_name)), tuple(left))


def _rivals(claims: Sequence[Recovered]) -> dict[MachineId, list[Recovered]]:
    """For each claim the others of its instance or its user."""
    same: dict[str, list[Recovered]] = defaultdict(list)
    for claim in claims:
        same[f"instance/{claim.id}"].append(claim)
        same[f"user/{claim.user_id}"].append(claim)
    return {
        one.machine_id: [
            *(other for other in same[f"instance/{one.id}"] if other is not one),
            *(other for other in same[f"user/{one.user_id}"] if other.id != one.id),
        ]
        for one in claims
    }


def _forgotten(one: Forgotten) -> Left:
    name = one.machine_name
    return Left(name, one.why, Hint(("fleet", "remove-orphan", name) if one.is_nobodys else ("fleet", "adopt", name)))


def _contested(one: Recovered, rivals: Sequence[Recovered]) -> Left:
    reasons = [f"so does {_claim(rival)}" for rival in rivals]
    return Left(
        one.machine_name,
        f"it says that it is instance {one.id} of user {one.user_id}: " + "; ".join([_claim(one), *reasons]),
        Hint(("fleet", "adopt", one.machine_name, "--contested"), ", once it is known to be the right one"),
    )


def _claim(one: Recovered) -> str:
    """A claim with what speaks for it, for a person who compares several."""
    proof = one.doubt or "its token is genuine"
    return f"{one.machine_name} (epoch {one.epoch}, made {one.created_at:%Y-%m-%d %H:%M}, {proof})"


def _vanished(answers: Iterable[Recovered | Forgotten], in_stacks: Mapping[MachineName, CellName]) -> list[Left]:
    there = {answer.machine_name for answer in answers}
    return [
        Left(
            name,
            f"the stack of {cell} holds it, and JustAVPS lists none of that name",
            Hint(("stack", "refresh", cell)),
        )
        for name, cell in sorted(in_stacks.items())
        if name not in there
    ]
