"""After the registry is lost: what vendor and machines still know, and by name what is lost. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hermesops.agents.drift.machine_identity import Forgotten
from hermesops.errors import Hint
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, UserId, is_alias, user_id_from_alias
from hermesops.model.recovery.record import RecoveryRecord
from hermesops.model.recovery.recovered import Recovered

_GONE = (
    "the audit log and all operations: what was done before, by whom and why",
    "terminated instances that were never backed up, and when an instance without a recovery record was made",
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
    """Contents of a new registry, and records that it will lack.

    Attributes:
        records: Recovery records of these instances, with passwords of backups and keys of volumes.
        left: Named, with what may be done about each.
        gone: What no machine remembers.
    """

    instances: tuple[Recovered, ...]
    left: tuple[Left, ...]
    records: tuple[RecoveryRecord, ...] = ()
    gone: tuple[str, ...] = _GONE


TAKE_BACK = Hint(("job", "run", "recovery-records"), ", once the object store answers, takes them back")


@dataclass(frozen=True)
class Records:
    """The recovery records that were found.

    Attributes:
        found: By instance.
        unread: Why the records of other instances could not be read.
        lost: Instances that have a repository and no record.
        problem: Why none could be looked for; empty where that is not so.
        hint: What to do about that.
    """

    found: Mapping[InstanceId, RecoveryRecord] = field(default_factory=dict)
    unread: Mapping[InstanceId, str] = field(default_factory=dict)
    lost: frozenset[InstanceId] = frozenset()
    problem: str = ""
    hint: Hint = TAKE_BACK


_NONE = Records()
_OPENS = "its backups and its data volume cannot be opened"


def plan_rebuild(
    told: Iterable[Recovered | Forgotten],
    *,
    aliases: Sequence[str] = (),
    in_stacks: Mapping[MachineName, CellName] | None = None,
    records: Records = _NONE,
    serving: Mapping[MachineId, bool] | None = None,
    users: Mapping[UserId, str] | None = None,
    environment: str = "local",
) -> Rebuild:
    """Choose the machine of each instance by its own answers.

    A machine is believed that proves its claim and is the only one with it. Where several claim an instance or a user,
    root on one can write a higher epoch: the one is believed that the recovery record names, unless another one that
    proves its claim has a higher epoch. Without a record a person has to compare them.

    Args:
        serving: Machines whose gateways may run, and those whose gateways are fenced; others are unknown.
        aliases: What operators called users; an alias belongs to the user whose id was made from it.
        in_stacks: Machines in the states of cells, where those still exist.
        users: Aliases of users that a registry which is whole knows; then nothing of it is gone.
        environment: Its name, for commands.
        records: They name users, and stand for instances whose machines do not answer or are gone.
    """
    answers = list(told)
    distinct = {one.machine_id: one for one in answers if isinstance(one, Recovered)}.values()
    claims = [_compared(one, records.found.get(one.id)) for one in distinct]
    known_as = {user_id_from_alias(alias): alias for alias in aliases if is_alias(alias)}
    rivals = _rivals(claims)
    recorded_as = {record.instance.user_id: record.instance.user_alias for record in records.found.values()}
    named = {**recorded_as, **known_as, **(users or {})}
    proven = [
        claim
        for claim in claims
        if not claim.doubt
        and (not rivals[claim.machine_id] or _is_recorded(claim, rivals[claim.machine_id], records.found))
    ]
    recorded = _recorded(records, claims)
    believed = [claim.called(named.get(claim.user_id, "")) for claim in [*proven, *recorded]]
    machines = {one.machine_name for one in recorded}
    left = [
        *(_forgotten(one) for one in answers if isinstance(one, Forgotten) and one.machine_name not in machines),
        *(_contested(one, rivals[one.machine_id], proven, serving or {}) for one in claims if one not in proven),
        *_outlived(records, claims),
        *_vanished(answers, {name: cell for name, cell in (in_stacks or {}).items() if name not in machines}),
        *_locked(records, believed),
        *(
            Left(
                one.user_id,
                "how operators called this user",
                Hint(("registry", "rebuild", "--over", environment, "--alias", "NAME"), "knows it again"),
            )
            for one in believed
            if not one.user_alias
        ),
    ]
    return Rebuild(
        tuple(sorted(believed, key=lambda one: one.machine_name)),
        tuple(left),
        tuple(records.found[one.id] for one in believed if one.id in records.found),
        _GONE if users is None else (),
    )


def _compared(claim: Recovered, record: RecoveryRecord | None) -> Recovered:
    """A claim; doubted where the registry knew the instance as another user's."""
    if record is None or claim.doubt or record.instance.user_id == claim.user_id:
        return claim
    return replace(claim, doubt=f"its recovery record says that it is of user {record.instance.user_id}")


def _is_recorded(claim: Recovered, rivals: Sequence[Recovered], records: Mapping[InstanceId, RecoveryRecord]) -> bool:
    """Whether the registry's last word was that the instance is on this machine, and no later machine proves itself."""
    record = records.get(claim.id)
    if record is None or record.instance.machine_id != claim.machine_id:
        return False
    genuine = [one for one in rivals if not one.doubt]
    return all(one.id == claim.id and one.epoch < claim.epoch for one in genuine)


def _recorded(records: Records, claims: Sequence[Recovered]) -> list[Recovered]:
    """Instances that only their records know: the machine is off, silent or gone."""
    ids, users, machines = ({getattr(claim, of) for claim in claims} for of in ("id", "user_id", "machine_name"))
    described = sorted((record.instance for record in records.found.values()), key=lambda one: one.id)
    return [
        one
        for one in described
        if one.id not in ids
        and one.machine_name not in machines
        and (one.user_id not in users or one.status is InstanceStatus.TERMINATED)
    ]


def _outlived(records: Records, claims: Sequence[Recovered]) -> list[Left]:
    """Instances that only their records know, whose user or machine is said to be another's by now.

    A record may be an hour old. None is written as ended: that would end its backups on the word of a machine.
    """
    taken = {record.instance.id for record in records.found.values()} - {one.id for one in claims}
    known = {one.id for one in _recorded(records, claims)}
    others = {key: claim for claim in claims for key in (claim.user_id, claim.machine_name)}
    found = [records.found[id_].instance for id_ in sorted(taken - known)]
    return [
        Left(
            one.user_alias or one.user_id,
            f"its recovery record is of instance {one.id}; {claim.machine_name} says that it is instance {claim.id} "
            f"of user {claim.user_id}",
            Hint(("fleet", "repair", "adopt", claim.machine_name)),
        )
        for one in found
        if (claim := others.get(one.user_id) or others.get(one.machine_name))
    ]


def _locked(records: Records, believed: Sequence[Recovered]) -> list[Left]:
    """Agents whose backups and volumes nobody can open now."""
    users = {one.id: one.user_alias or one.user_id for one in believed}
    unknown = believed if records.problem else ()
    return [
        *(Left(users[one.id], f"{_OPENS}: {records.problem}", records.hint) for one in unknown),
        *(
            Left(users.get(id_, id_), f"{_OPENS}: {why}", Hint(("secrets", "check", "registry.key")))
            for id_, why in records.unread.items()
        ),
        *(
            Left(users.get(id_, id_), f"{_OPENS}: it has no recovery record", _anew(users.get(id_, id_)))
            for id_ in sorted(records.lost)
        ),
    ]


def _anew(user: str) -> Hint:
    return Hint("move its repository away, as runbooks/registry-damaged.md says; then", ("backup", "create", user))


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
    return Left(
        name,
        one.why,
        Hint(("fleet", "repair", "remove-orphan", name) if one.is_nobodys else ("fleet", "repair", "adopt", name)),
    )


def _contested(
    one: Recovered, rivals: Sequence[Recovered], proven: Sequence[Recovered], serving: Mapping[MachineId, bool]
) -> Left:
    says = f"it says that it is instance {one.id} of user {one.user_id}"
    newest = next((rival for rival in rivals if rival in proven), None) or _newest([one, *rivals], serving)
    removal = ("fleet", "repair", "remove-orphan", one.machine_name)
    if newest is not None and newest in proven and not one.doubt:
        return Left(one.machine_name, f"{says}, and is older than {_claim(newest)}", Hint(removal))
    if newest is not None and newest.machine_id == one.machine_id:
        others = ", ".join(f"{rival.machine_name} (epoch {rival.epoch})" for rival in _by_epoch(rivals))
        why = f"{says}: {_claim(one)}, the highest, and its gateway is not fenced; older: {others}"
        return Left(one.machine_name, why, Hint(("fleet", "repair", "adopt", one.machine_name, "--contested")))
    if newest is not None and not one.doubt:
        why = f"{says}: epoch {one.epoch}, older than {_claim(newest)}"
        return Left(one.machine_name, why, Hint(f"once {newest.machine_name} is adopted:", removal))
    reasons = [f"so does {_claim(rival)}" for rival in _by_epoch(rivals)]
    return Left(
        one.machine_name,
        "; ".join([f"{says}: {_claim(one)}", *reasons]),
        Hint(("fleet", "repair", "adopt", one.machine_name, "--contested"), ", once it is known to be the right one"),
    )


def _newest(claims: Sequence[Recovered], serving: Mapping[MachineId, bool]) -> Recovered | None:
    """The machine that an instance came to last, where all that claim it prove that and only it is not fenced."""
    ordered = _by_epoch(claims)
    if any(one.doubt or one.id != ordered[0].id for one in claims):
        return None
    first, *others = ordered
    is_alone = serving.get(first.machine_id, False) and not any(serving.get(one.machine_id, True) for one in others)
    return first if is_alone and all(one.epoch < first.epoch for one in others) else None


def _by_epoch(claims: Sequence[Recovered]) -> list[Recovered]:
    """The machines that an instance came to, the last one first."""
    return sorted(claims, key=lambda one: (-one.epoch, one.machine_name))


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
