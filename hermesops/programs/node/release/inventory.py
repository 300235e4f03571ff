"""``release show`` and ``release gc``: list the releases on this machine, and remove those that are not needed."""

from typing import Any

from hermesops.programs.node.instance import fencing
from hermesops.programs.node.instance.agent.installation import agent_of
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release import activation as records
from hermesops.programs.node.release.slots import slot
from hermesops.wire.documents.lock import Lock
from hermesops.wire.protocol import FencingToken

_STATES_S = 30 * 86400.0
"""How long the newer state is kept after a rollback, in seconds."""


def show(machine: Machine) -> dict[str, Any]:
    """Slots, the running one, an unfinished change, the outcome of the last change, and the release before."""
    return {**of_status(machine), "before": records.history(machine).before}


def of_status(machine: Machine) -> dict[str, Any]:
    """``show`` for ``status``, without the previous release."""
    pending = records.load(machine)
    activation = pending and {
        "to": pending.to,
        "from": pending.before,
        "phase": pending.phase.value,
        "confirm_by_s": round(max(0.0, pending.deadline - machine.system.monotonic()), 1),
        "due": records.is_due(machine, pending),
    }
    return {
        "current": slot.current(machine) or None,
        "slots": machine.slots.names(),
        "python": machine.slots.python(),
        "activation": activation,
        "last": records.history(machine).last,
    }


def gc(machine: Machine, *, keep: int, lease: FencingToken | None) -> dict[str, Any]:
    """Remove slots beyond ``keep``, files that no slot needs, and states that were kept for a month."""
    with machine.files.locked(machine.layout.release_lock), machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        activation, history = records.load(machine), records.history(machine)
        needed = {slot.current(machine), history.before, *((activation.to, activation.before) if activation else ())}
        names = machine.slots.names()
        for each in [*history.order, *sorted(set(names) - set(history.order))]:
            if len(needed & set(names)) < keep:
                needed.add(each)
        removed = [each for each in names if each not in needed]
        for each in removed:
            machine.slots.remove(each)
            machine.remove(machine.layout.fetched(each))
        locks = [Lock.from_json(slot.record_of(machine, each)["lock"].encode()) for each in machine.slots.names()]
        machine.slots.forget_blobs(blob for lock in locks for blob in lock.blobs(machine.slots.python()))
        states = machine.state.prune(agent_of(machine).home, older_than_s=_STATES_S)
    return {"removed": removed, "states": states, "slots": machine.slots.names()}
