"""Rebuilds a lost registry from facts of vendor and machines, and names the lost facts. Pure."""

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
    "the audit log and all operations: earlier actions, their operators and reasons",
    "terminated instances without a backup, and creation times of instances without a recovery record",
    "connections to services: users have to connect again",
    "settings before the last change, subscriptions, and the plans that cells are reserved for",
    "images: hermesops image build finds or rebuilds them",
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
        left: Things that stay lost, each with a next step.
        gone: Facts that no machine has.
    """

    instances: tuple[Recovered, ...]
    left: tuple[Left, ...]
    records: tuple[RecoveryRecord, ...] = ()
    gone: tuple[str, ...] = _GONE


TAKE_BACK = Hint(("job", "run", "recovery-records"), "restores them once the object store answers")


@dataclass(frozen=True)
class Records:
    """The recovery records that were found.

    Attributes:
        by_instance: The records, by instance.
        unread: Why the records of other instances could not be read.
        lost: Instances that have a repository and no record.
        problem: Why none could be looked for; empty where that is not so.
        hint: Next step for ``problem``.
    """

    by_instance: Mapping[InstanceId, RecoveryRecord] = field(default_factory=dict)
    unread: Mapping[InstanceId, str] = field(default_factory=dict)
    lost: frozenset[InstanceId] = frozenset()
    problem: str = ""
    hint: Hint = TAKE_BACK


_NONE = Records()
_OPENS = "its backups and its data volume cannot be opened"


def plan_rebuild(
    identities: Iterable[Recovered | Forgotten],
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
        aliases: Aliases from operators; each belongs to the user whose id derives from it.
        in_stacks: Machines in the states of cells, where those still exist.
        users: Aliases of users that a registry which is whole knows; then nothing of it is gone.
        environment: Its name, for commands.
        records: They name users, and stand for instances whose machines do not answer or are gone.
    """
    answers = list(identities)
    distinct = {claim.machine_id: claim for claim in answers if isinstance(claim, Recovered)}.values()
    claims = [_compared(claim, records.by_instance.get(claim.id)) for claim in distinct]
    known_as = {user_id_from_alias(alias): alias for alias in aliases if is_alias(alias)}
    rivals = _rivals(claims)
    recorded_as = {record.instance.user_id: record.instance.user_alias for record in records.by_instance.values()}
    named = {**recorded_as, **known_as, **(users or {})}
    proven = [
        claim
        for claim in claims
        if not claim.doubt
        and (not rivals[claim.machine_id] or _is_recorded(claim, rivals[claim.machine_id], records.by_instance))
    ]
    recorded = _recorded(records, claims)
    believed = [claim.called(named.get(claim.user_id, "")) for claim in [*proven, *recorded]]
    machines = {instance.machine_name for instance in recorded}
    left = [
        *(
            _forgotten(answer)
            for answer in answers
            if isinstance(answer, Forgotten) and answer.machine_name not in machines
        ),
        *(
            _contested(claim, rivals[claim.machine_id], proven, serving or {})
            for claim in claims
            if claim not in proven
        ),
        *_outlived(records, claims),
        *_vanished(answers, {name: cell for name, cell in (in_stacks or {}).items() if name not in machines}),
        *_locked(records, believed),
        *(
            Left(
                instance.user_id,
                "the alias of this user",
                Hint(("registry", "rebuild", "--over", environment, "--alias", "NAME"), "restores it"),
            )
            for instance in believed
            if not instance.user_alias
        ),
    ]
    return Rebuild(
        tuple(sorted(believed, key=lambda instance: instance.machine_name)),
        tuple(left),
        tuple(records.by_instance[instance.id] for instance in believed if instance.id in records.by_instance),
        _GONE if users is None else (),
    )


def _compared(claim: Recovered, record: RecoveryRecord | None) -> Recovered:
    """A claim; doubted where the registry knew the instance as another user's."""
    if record is None or claim.doubt or record.instance.user_id == claim.user_id:
        return claim
    return replace(claim, doubt=f"its recovery record names user {record.instance.user_id}")


def _is_recorded(claim: Recovered, rivals: Sequence[Recovered], records: Mapping[InstanceId, RecoveryRecord]) -> bool:
    """Whether the registry's last word was that the instance is on this machine, and no later machine proves itself."""
    record = records.get(claim.id)
    if record is None or record.instance.machine_id != claim.machine_id:
        return False
    genuine = [rival for rival in rivals if not rival.doubt]
    return all(rival.id == claim.id and rival.epoch < claim.epoch for rival in genuine)


def _recorded(records: Records, claims: Sequence[Recovered]) -> list[Recovered]:
    """Instances that only their records know: the machine is off, silent or gone."""
    ids, users, machines = ({getattr(claim, of) for claim in claims} for of in ("id", "user_id", "machine_name"))
    described = sorted((record.instance for record in records.by_instance.values()), key=lambda instance: instance.id)
    return [
        instance
        for instance in described
        if instance.id not in ids
        and instance.machine_name not in machines
        and (instance.user_id not in users or instance.status is InstanceStatus.TERMINATED)
    ]


def _outlived(records: Records, claims: Sequence[Recovered]) -> list[Left]:
    """Instances known only by their records, while a machine reports another instance of their user or machine.

    A record may be an hour old. None is written as ended: that would end its backups on the word of a machine.
    """
    taken = {record.instance.id for record in records.by_instance.values()} - {claim.id for claim in claims}
    known = {instance.id for instance in _recorded(records, claims)}
    others = {key: claim for claim in claims for key in (claim.user_id, claim.machine_name)}
    outlived = [records.by_instance[id_].instance for id_ in sorted(taken - known)]
    return [
        Left(
            instance.user_alias or instance.user_id,
            f"its recovery record names instance {instance.id}; {claim.machine_name} reports instance {claim.id} "
            f"of user {claim.user_id}",
            Hint(("fleet", "repair", "adopt", claim.machine_name)),
        )
        for instance in outlived
        if (claim := others.get(instance.user_id) or others.get(instance.machine_name))
    ]


def _locked(records: Records, believed: Sequence[Recovered]) -> list[Left]:
    """Agents without a key for their backups and volumes."""
    users = {instance.id: instance.user_alias or instance.user_id for instance in believed}
    unknown = believed if records.problem else ()
    return [
        *(Left(users[instance.id], f"{_OPENS}: {records.problem}", records.hint) for instance in unknown),
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
    return Hint("move its repository away (see runbooks/registry-damaged.md), then", ("backup", "create", user))


def _rivals(claims: Sequence[Recovered]) -> dict[MachineId, list[Recovered]]:
    """For each claim the others of its instance or its user."""
    same: dict[str, list[Recovered]] = defaultdict(list)
    for claim in claims:
        same[f"instance/{claim.id}"].append(claim)
        same[f"user/{claim.user_id}"].append(claim)
    return {
        claim.machine_id: [
            *(other for other in same[f"instance/{claim.id}"] if other is not claim),
            *(other for other in same[f"user/{claim.user_id}"] if other.id != claim.id),
        ]
        for claim in claims
    }


def _forgotten(machine: Forgotten) -> Left:
    name = machine.machine_name
    return Left(
        name,
        machine.why,
        Hint(("fleet", "repair", "remove-orphan", name) if machine.is_nobodys else ("fleet", "repair", "adopt", name)),
    )


def _contested(
    claim: Recovered, rivals: Sequence[Recovered], proven: Sequence[Recovered], serving: Mapping[MachineId, bool]
) -> Left:
    says = f"it reports instance {claim.id} of user {claim.user_id}"
    newest = next((rival for rival in rivals if rival in proven), None) or _newest([claim, *rivals], serving)
    removal = ("fleet", "repair", "remove-orphan", claim.machine_name)
    if newest is not None and newest in proven and not claim.doubt:
        return Left(claim.machine_name, f"{says}; older than {_claim(newest)}", Hint(removal))
    if newest is not None and newest.machine_id == claim.machine_id:
        others = ", ".join(f"{rival.machine_name} (epoch {rival.epoch})" for rival in _by_epoch(rivals))
        why = f"{says}: {_claim(claim)}; highest epoch, gateway not fenced; older: {others}"
        return Left(claim.machine_name, why, Hint(("fleet", "repair", "adopt", claim.machine_name, "--contested")))
    if newest is not None and not claim.doubt:
        why = f"{says}: epoch {claim.epoch}, older than {_claim(newest)}"
        return Left(claim.machine_name, why, Hint(f"after adopting {newest.machine_name}:", removal))
    reasons = [f"also reported by {_claim(rival)}" for rival in _by_epoch(rivals)]
    return Left(
        claim.machine_name,
        "; ".join([f"{says}: {_claim(claim)}", *reasons]),
        Hint(
            ("fleet", "repair", "adopt", claim.machine_name, "--contested"),
            ", after verifying that it is the right one",
        ),
    )


def _newest(claims: Sequence[Recovered], serving: Mapping[MachineId, bool]) -> Recovered | None:
    """The machine that an instance came to last, where all that claim it prove that and only it is not fenced."""
    ordered = _by_epoch(claims)
    if any(claim.doubt or claim.id != ordered[0].id for claim in claims):
        return None
    first, *others = ordered
    is_alone = serving.get(first.machine_id, False) and not any(serving.get(claim.machine_id, True) for claim in others)
    return first if is_alone and all(claim.epoch < first.epoch for claim in others) else None


def _by_epoch(claims: Sequence[Recovered]) -> list[Recovered]:
    """The machines that an instance came to, the last one first."""
    return sorted(claims, key=lambda claim: (-claim.epoch, claim.machine_name))


def _claim(claim: Recovered) -> str:
    """Describe a claim with its proof, for a person who compares several."""
    proof = claim.doubt or "its token is genuine"
    return f"{claim.machine_name} (epoch {claim.epoch}, made {claim.created_at:%Y-%m-%d %H:%M}, {proof})"


def _vanished(answers: Iterable[Recovered | Forgotten], in_stacks: Mapping[MachineName, CellName]) -> list[Left]:
    there = {answer.machine_name for answer in answers}
    return [
        Left(
            name,
            f"the stack of {cell} contains this machine; JustAVPS lists none of this name",
            Hint(("stack", "refresh", cell)),
        )
        for name, cell in sorted(in_stacks.items())
        if name not in there
    ]
