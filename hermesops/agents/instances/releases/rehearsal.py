"""Rehearses upgrade and rollback of a release on a machine without an instance, before any user gets it.

Nothing on the machine is undone: the caller destroys it.
"""

from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.release.releases import HandedOut
from hermesops.model.fleet.slot import Activation, SlotsState
from hermesops.model.ids import MachineId
from hermesops.model.recovery.state import State


class NoRollbackError(RefusedError):
    """A machine failed to upgrade to the release, or to roll back from it with its state complete."""


async def walk(
    slots: ReleaseClient, states: PowerControl, machine_id: MachineId, bundle: HandedOut, *, before: HandedOut
) -> str:
    """Upgrade a machine from one release to another and roll it back; returns a description.

    The migrated state is what the older release made on that machine.

    Args:
        machine_id: A machine that never gets an instance.
        before: The release to roll back to; deployed first if the machine runs another.

    Raises:
        NoRollbackError: The release does not run there, or what comes back is not what was.
        HermesError: The machine could not be asked, so nothing is known.
    """
    began = await _seen(slots, machine_id)
    if began.current != before.id:
        await _deploy(slots, machine_id, before, began.python)
    was = await _state(states, machine_id)
    done = await _deploy(slots, machine_id, bundle, began.python)
    try:
        await slots.roll_back(machine_id, to=before.id)
    except RefusedError as refusal:
        raise NoRollbackError(f"a machine does not go back to {before.id}: {refusal.message}") from refusal
    now = (await _seen(slots, machine_id)).current
    if now != before.id:
        raise NoRollbackError(f"a machine that went back runs {now} and not {before.id}")
    lost = was.differences(await _state(states, machine_id))
    if lost:
        raise NoRollbackError(f"back on {before.id} a machine's state is another one: {'; '.join(lost)}")
    return f"a machine went to {bundle.id} and back to {before.id} ({done.rollback_method or 'unknown'}), with {was}"


async def _deploy(slots: ReleaseClient, machine_id: MachineId, bundle: HandedOut, python: str) -> Activation:
    done = await slots.deploy(machine_id, bundle, python=python)
    if done.problem:
        raise NoRollbackError(f"{bundle.id} does not run on a machine: {done.stage}: {done.problem}")
    return done


async def _seen(slots: ReleaseClient, machine_id: MachineId) -> SlotsState:
    slots_state = await slots.observe(machine_id)
    if slots_state is None:
        raise UnavailableError(f"hermes-node on machine {machine_id} gives no answer")
    return slots_state


async def _state(states: PowerControl, machine_id: MachineId) -> State:
    state = await states.state(machine_id)
    if state is None:
        raise UnavailableError(f"hermes-node on machine {machine_id} does not report its state")
    return state
