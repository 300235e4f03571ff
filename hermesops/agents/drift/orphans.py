"""Whether an orphan may be adopted by an instance, or deleted; never the only copy of a user's memory. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermesops.agents.drift.machine_identity import Forgotten
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.recovered import Recovered
from hermesops.model.unknown_name import unknown_name
from hermesops.vendor.justavps.wire import Machine


@dataclass(frozen=True)
class Recover:
    """Write the rows of an instance that has none."""

    instance: Recovered


@dataclass(frozen=True)
class Take:
    """Put an instance that lost its machine on this one, which reports that instance."""

    instance_id: InstanceId
    machine: Recovered


@dataclass(frozen=True)
class Holder:
    """The row of the instance that an orphan reports.

    Attributes:
        has_machine: Whether JustAVPS lists the machine of its row.
        machine_doubt: Why that machine does not prove that it is the instance's; empty when it does.
    """

    instance: Instance
    has_machine: bool
    machine_doubt: str = ""


def chosen(orphans: list[Machine], name: str, machine_id: str) -> Machine:
    """The orphan with this name, or this id where two have the name.

    Args:
        machine_id: As typed; needed only where two bear the name.

    Raises:
        UsageError: None is, or more than one.
    """
    named = [one for one in orphans if one.name == name and machine_id in {"", one.id}]
    if len(named) > 1:
        ids = ", ".join(one.id for one in named)
        raise UsageError(f"{len(named)} orphans are named {name}: say which by --id ({ids})")
    if not named:
        raise unknown_name("orphan", machine_id or name, [one.id if machine_id else one.name for one in orphans])
    return named[0]


def rivals_of(told: Recovered, others: Iterable[Recovered | Forgotten]) -> list[Recovered]:
    """Other orphans that say that they are the same instance, or of the same user."""
    found = (one for one in others if isinstance(one, Recovered) and one.machine_id != told.machine_id)
    return [one for one in found if one.id == told.id or one.user_id == told.user_id]


def doubt_of(told: Recovered | Forgotten, instance_id: InstanceId) -> str:
    """Why a machine does not prove that it is the instance's; empty when it does."""
    if isinstance(told, Forgotten):
        return told.why
    return told.doubt or ("" if told.id == instance_id else f"it says that it is instance {told.id}")


def adoption(
    told: Recovered | Forgotten,
    holder: Holder | None,
    *,
    rivals: Sequence[Recovered] = (),
    contested: bool = False,
) -> Recover | Take:
    """How an orphan gets an instance again.

    Args:
        contested: Whether an operator confirms that it is the right one, whatever it or others can prove.

    Raises:
        UnavailableError: It does not say which instance it has.
        RefusedError: It has no instance; or its instance is terminated, has another machine, or moved on to a later
            epoch; or it cannot prove what it reports, or others report the same.
    """
    if isinstance(told, Forgotten):
        raise _untold(told)
    if not contested and (told.doubt or rivals):
        raise _contested(told, rivals)
    if holder is None:
        return Recover(told)
    row = holder.instance
    removal = Hint(("fleet", "repair", "remove-orphan", told.machine_name))
    if row.status is InstanceStatus.TERMINATED:
        raise RefusedError(f"{told.machine_name} belongs to instance {row.id}, which is terminated", hint=removal)
    if _is_later(told, holder):
        raise _later(told, row)
    if holder.has_machine:
        raise RefusedError(
            f"{told.machine_name} belongs to instance {row.id}, which is on machine {row.machine_name}", hint=removal
        )
    if told.epoch < row.epoch:
        raise RefusedError(
            f"{told.machine_name} was left by instance {row.id} when it moved: its memory is older", hint=removal
        )
    return Take(row.id, told)


def _contested(told: Recovered, rivals: Sequence[Recovered]) -> RefusedError:
    others = ", ".join(
        f"{one.machine_name} (epoch {one.epoch}, {one.doubt or 'its token is genuine'})" for one in rivals
    )
    why = told.doubt or f"so says {others}"
    return RefusedError(
        f"{told.machine_name} says that it is instance {told.id} of user {told.user_id}, epoch {told.epoch}, but {why}",
        hint=Hint(
            "compare when each was made and what its agent remembers; then",
            ("fleet", "repair", "adopt", told.machine_name, "--contested"),
        ),
    )


def _untold(told: Forgotten) -> HermesError:
    if told.is_nobodys:
        return RefusedError(
            f"{told.machine_name} has no instance: there is none to give it to",
            hint=Hint(("fleet", "repair", "remove-orphan", told.machine_name)),
        )
    return UnavailableError(
        f"{told.machine_name} does not say whose it is: {told.why}",
        hint=Hint(("fleet", "repair", "adopt", told.machine_name), ", once it answers"),
    )


def refuse_removal(told: Recovered | Forgotten, holder: Holder | None) -> None:
    """Let a machine be deleted only if it does not hold the only copy of a user's memory.

    Raises:
        RefusedError: It does, or does not say which instance it has.
    """
    forget = Hint(("fleet", "repair", "remove-orphan", told.machine_name, "--forget"), "destroys it all the same")
    if isinstance(told, Forgotten):
        if not told.is_nobodys:
            raise RefusedError(f"{told.machine_name} does not say whose memory is on it: {told.why}", hint=forget)
        return
    if holder is None or (holder.instance.status is not InstanceStatus.TERMINATED and not holder.has_machine):
        raise RefusedError(
            f"the memory of instance {told.id} is on {told.machine_name} and on no other machine",
            hint=Hint(("fleet", "repair", "adopt", told.machine_name), ";", forget),
        )
    if _is_later(told, holder):
        raise _later(told, holder.instance)
    if holder.instance.status is not InstanceStatus.TERMINATED and holder.machine_doubt:
        raise _unproven(told, holder, forget)


def _unproven(told: Recovered, holder: Holder, forget: Hint) -> RefusedError:
    """The machine of the row may be an impostor, and the orphan the genuine one."""
    row = holder.instance
    return RefusedError(
        f"{told.machine_name} says that it is instance {told.id}, and machine {row.machine_name}, which the instance's "
        f"row names, does not prove that it is: {holder.machine_doubt}",
        hint=Hint("compare both machines first:", ("instance", "show", row.title), ";", forget),
    )


def _is_later(told: Recovered, holder: Holder) -> bool:
    """Whether an instance came to the orphan after it came to the machine of its row.

    Each change of machines raises the epoch; a registry that was restored from an older copy lacks the last one.
    """
    is_living = holder.instance.status is not InstanceStatus.TERMINATED
    return is_living and holder.has_machine and told.epoch > holder.instance.epoch


def _later(told: Recovered, row: Instance) -> RefusedError:
    return RefusedError(
        f"{told.machine_name} says that instance {row.id} came to it later (epoch {told.epoch}) than to machine "
        f"{row.machine_name} (epoch {row.epoch}), which its row names: the memory on it may be the newer one",
        hint=Hint(
            "compare both machines first:",
            ("instance", "show", row.title),
            ";",
            ("fleet", "repair", "remove-orphan", told.machine_name, "--forget"),
            "destroys this one",
        ),
    )
