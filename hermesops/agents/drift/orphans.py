"""Whether an orphan may be adopted by an instance, or deleted; never the only copy of a user's memory. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hermesops.agents.drift.machine_identity import Forgotten
from hermesops.errors import HermesError, Hint, Parameter, RefusedError, UnavailableError, UsageError
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
    named = [machine for machine in orphans if machine.name == name and machine_id in {"", machine.id}]
    if len(named) > 1:
        ids = ", ".join(machine.id for machine in named)
        raise UsageError(
            f"{len(named)} orphans have the name {name}: {ids}", hint=Hint("choose one by", Parameter("id", "ID"))
        )
    if not named:
        raise unknown_name(
            "orphan", machine_id or name, [machine.id if machine_id else machine.name for machine in orphans]
        )
    return named[0]


def rivals_of(claim: Recovered, others: Iterable[Recovered | Forgotten]) -> list[Recovered]:
    """Other orphans that say that they are the same instance, or of the same user."""
    claims = (other for other in others if isinstance(other, Recovered) and other.machine_id != claim.machine_id)
    return [rival for rival in claims if rival.id == claim.id or rival.user_id == claim.user_id]


def doubt_of(identity: Recovered | Forgotten, instance_id: InstanceId) -> str:
    """Why a machine does not prove that it is the instance's; empty when it does."""
    if isinstance(identity, Forgotten):
        return identity.why
    return identity.doubt or ("" if identity.id == instance_id else f"it reports instance {identity.id}")


def adoption(
    identity: Recovered | Forgotten,
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
            epoch; or its report lacks a proof, or others report the same.
    """
    if isinstance(identity, Forgotten):
        raise _untold(identity)
    if not contested and (identity.doubt or rivals):
        raise _contested(identity, rivals)
    if holder is None:
        return Recover(identity)
    row = holder.instance
    removal = Hint(("fleet", "repair", "remove-orphan", identity.machine_name))
    if row.status is InstanceStatus.TERMINATED:
        raise RefusedError(f"{identity.machine_name} belongs to instance {row.id}, which is terminated", hint=removal)
    if _is_later(identity, holder):
        raise _later(identity, row)
    if holder.has_machine:
        raise RefusedError(
            f"{identity.machine_name} belongs to instance {row.id}, which is on machine {row.machine_name}",
            hint=removal,
        )
    if identity.epoch < row.epoch:
        raise RefusedError(
            f"instance {row.id} has left {identity.machine_name}: the memory on that machine is older", hint=removal
        )
    return Take(row.id, identity)


def _contested(claim: Recovered, rivals: Sequence[Recovered]) -> RefusedError:
    others = ", ".join(
        f"{rival.machine_name} (epoch {rival.epoch}, {rival.doubt or 'its token is genuine'})" for rival in rivals
    )
    why = claim.doubt or f"others report the same: {others}"
    return RefusedError(
        f"{claim.machine_name} reports instance {claim.id} of user {claim.user_id}, epoch {claim.epoch}, but {why}",
        hint=Hint(
            "compare their creation times and the memories of their agents, then",
            ("fleet", "repair", "adopt", claim.machine_name, "--contested"),
        ),
    )


def _untold(machine: Forgotten) -> HermesError:
    if machine.is_nobodys:
        return RefusedError(
            f"{machine.machine_name} reports no instance, so it cannot be adopted",
            hint=Hint(("fleet", "repair", "remove-orphan", machine.machine_name)),
        )
    return UnavailableError(
        f"the instance of {machine.machine_name} is unknown: {machine.why}",
        hint=Hint(("fleet", "repair", "adopt", machine.machine_name), "once it answers"),
    )


def refuse_removal(identity: Recovered | Forgotten, holder: Holder | None) -> None:
    """Let a machine be deleted only if it does not hold the only copy of a user's memory.

    Raises:
        RefusedError: It does, or does not say which instance it has.
    """
    forget = Hint(("fleet", "repair", "remove-orphan", identity.machine_name, "--forget"), "destroys it anyway")
    if isinstance(identity, Forgotten):
        if not identity.is_nobodys:
            raise RefusedError(
                f"the owner of the memory on {identity.machine_name} is unknown: {identity.why}", hint=forget
            )
        return
    if holder is None or (holder.instance.status is not InstanceStatus.TERMINATED and not holder.has_machine):
        raise RefusedError(
            f"the memory of instance {identity.id} is on {identity.machine_name} and on no other machine",
            hint=Hint(("fleet", "repair", "adopt", identity.machine_name), ";", forget),
        )
    if _is_later(identity, holder):
        raise _later(identity, holder.instance)
    if holder.instance.status is not InstanceStatus.TERMINATED and holder.machine_doubt:
        raise _unproven(identity, holder, forget)


def _unproven(claim: Recovered, holder: Holder, forget: Hint) -> RefusedError:
    """The machine of the row may be an impostor, and the orphan the genuine one."""
    row = holder.instance
    return RefusedError(
        f"{claim.machine_name} reports instance {claim.id}; machine {row.machine_name}, named by the row of that "
        f"instance, does not prove the same: {holder.machine_doubt}",
        hint=Hint("compare both machines first:", ("instance", "show", row.title), ";", forget),
    )


def _is_later(claim: Recovered, holder: Holder) -> bool:
    """Whether an instance came to the orphan after it came to the machine of its row.

    Each change of machines raises the epoch; a registry that was restored from an older copy lacks the last one.
    """
    is_living = holder.instance.status is not InstanceStatus.TERMINATED
    return is_living and holder.has_machine and claim.epoch > holder.instance.epoch


def _later(claim: Recovered, row: Instance) -> RefusedError:
    return RefusedError(
        f"{claim.machine_name} reports a later epoch of instance {row.id} ({claim.epoch}) than its row has for machine "
        f"{row.machine_name} ({row.epoch}): the memory on {claim.machine_name} may be newer",
        hint=Hint(
            "compare both machines first:",
            ("instance", "show", row.title),
            ";",
            ("fleet", "repair", "remove-orphan", claim.machine_name, "--forget"),
            "destroys this orphan",
        ),
    )
