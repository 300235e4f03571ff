"""``release rollback``, ``show`` and ``gc``, and what ``status`` says of releases."""

from dataclasses import replace
from typing import Any

from hermesops.node.errors import FAILED, RefusedError
from hermesops.node.instance import drain, fencing_token
from hermesops.node.instance.agent.installation import Agent, agent_of, is_running
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.release import activation as records
from hermesops.node.release import rollback as release_rollback
from hermesops.node.release.activation import Activation, Phase
from hermesops.node.release.documents.lock import Lock
from hermesops.node.release.fetch import held_revocations
from hermesops.node.release.slots import links, managed_files
from hermesops.node.release.trial.run import try_out

_ASKED = "somebody asked for it"


def rollback(
    machine: Machine,
    *,
    to: str = "",
    loses: bool = False,
    even_revoked: bool = False,
    drain_s: float = 8.0,
    lease: FencingToken | None,
) -> tuple[dict[str, Any], int]:
    """Have the slot before run again, or another one; what came of it, and the exit code.

    A release that nobody confirmed yet is left at once. Safe to call twice with ``to``.

    Args:
        machine: Which.
        to: The slot; empty for the one before.
        loses: Whether rows written since may be lost.
        even_revoked: Whether it may be a release that must not run any more.
        drain_s: Seconds for what the agent is at.
        lease: Under which.

    Raises:
        RefusedError: There is no such slot, its release was revoked or is below the floor, or rows written since would
            be lost; and nobody said that it may be so.
        OutrankedError: The lease was taken over.
    """
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        held = records.load(machine)
        if held is not None and to in {"", held.before}:
            told = release_rollback.roll_back(machine, held, _ASKED)
        elif held is not None:
            raise RefusedError(f"release {held.to} is unconfirmed here: first back to {held.before}, then on to {to}")
        elif to and to == links.current(machine):
            return {"release": to, "from": to, "gap_s": 0.0, "migrated": 0, "listed": 0, "kept": ""}, 0
        else:
            told = _leave(machine, to, loses=loses, even_revoked=even_revoked, drain_s=drain_s)
    return told, 0 if told["healthy"] else FAILED


def _leave(machine: Machine, to: str, *, loses: bool, even_revoked: bool, drain_s: float) -> dict[str, Any]:
    """Go over to an older slot from a release that was confirmed."""
    before = records.history(machine)
    target = to or before.before
    if not target:
        raise RefusedError("no slot is known to have run before this one: hermes-node release rollback --to names one")
    if target not in machine.slots.names():
        raise RefusedError(f"there is no slot of release {target}; there are {', '.join(machine.slots.names())}")
    if not even_revoked:
        _refuse_revoked(machine, target)
    agent = agent_of(machine)
    kept = before.kept if target == before.before else ""
    if kept:
        _refuse_loss(machine, agent, kept, loses=loses)
    elif target != before.before and not loses:
        _refuse_unreadable(machine, agent, target)
    starts = is_running(machine, agent)
    managed_files.adopt(machine)
    held = Activation(links.current(machine), target, Phase.PREPARED, kept, starts)
    records.save(machine, held)
    managed_files.stage_rollback_files(machine, target)
    drain.finish_work(machine, agent, deadline_s=drain_s)
    return release_rollback.roll_back(machine, replace(held, phase=Phase.GOING_BACK), _ASKED)


def _refuse_revoked(machine: Machine, target: str) -> None:
    """Go on where a slot's release may run; of a slot that the roles made nobody knows more than its name."""
    text, revocations = links.record_of(machine, target).get("lock"), held_revocations(machine)
    lock = Lock.from_json(str(text).encode()) if text else None
    why = revocations.why_not(lock) if lock else revocations.why_not_named(target)
    if why:
        raise RefusedError(f"release {target} {why}: --even-revoked goes back to it all the same")


def _refuse_loss(machine: Machine, agent: Agent, kept: str, *, loses: bool) -> None:
    weighed = machine.state.weigh(agent.home, kept)
    if weighed.listed and not loses:
        raise RefusedError(
            f"going back would carry {weighed.migrated} rows written since and leave {weighed.listed} out: "
            "--lose does it, and lists them"
        )


def _refuse_unreadable(machine: Machine, agent: Agent, target: str) -> None:
    """A slot that did not run just before this one: whether it does with today's state is found out on a copy."""
    payload = managed_files.occupant(machine)
    if payload is None:
        return
    tried = try_out(machine, agent, payload, target)
    if not tried.ok:
        failing = next(check for check in tried.checks if not check.ok)
        raise RefusedError(f"release {target} does not run on today's state ({failing.name}: {failing.detail}): --lose")


def show(machine: Machine) -> dict[str, Any]:
    """Slots, the running one, a change that is not over, and what came of the last one."""
    return {**of_status(machine), "before": records.history(machine).before}


def of_status(machine: Machine) -> dict[str, Any]:
    """As ``status`` says it."""
    held = records.load(machine)
    return {
        "current": links.current(machine) or None,
        "slots": machine.slots.names(),
        "python": machine.slots.python(),
        "activation": None
        if held is None
        else {
            "to": held.to,
            "from": held.before,
            "phase": held.phase.value,
            "confirm_by_s": round(max(0.0, held.deadline - machine.system.monotonic()), 1),
            "due": records.is_due(machine, held),
        },
        "last": records.history(machine).last,
    }


def gc(machine: Machine, *, keep: int, lease: FencingToken | None) -> dict[str, Any]:
    """Remove slots beyond so many, files that no slot needs, and states that were kept for a month."""
    with machine.files.locked(machine.layout.release_lock), machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        held, remembered = records.load(machine), records.history(machine)
        needed = {links.current(machine), remembered.before, *((held.to, held.before) if held else ())}
        known = [*remembered.order, *sorted(set(machine.slots.names()) - set(remembered.order))]
        for each in known:
            if len(needed & set(machine.slots.names())) < keep:
                needed.add(each)
        removed = [each for each in machine.slots.names() if each not in needed]
        for each in removed:
            machine.slots.remove(each)
            machine.remove(machine.layout.fetched(each))
        machine.slots.forget_blobs(blob for each in machine.slots.names() for blob in _blobs(machine, each))
        states = machine.state.outdated(agent_of(machine).home, older_than_s=records.MONTH_S)
    return {"removed": removed, "states": states, "slots": machine.slots.names()}


def _blobs(machine: Machine, release: str) -> Any:  # noqa: ANN401
    text = links.record_of(machine, release).get("lock")
    if not text:
        return ()
    return Lock.from_json(str(text).encode()).blobs(machine.slots.python())
