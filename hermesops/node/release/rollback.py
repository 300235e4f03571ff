"""Leaving a release for the one before it: by itself when nobody confirmed it, or because somebody asks.

Every step looks before it changes, and none needs room on the disk, so this may be killed anywhere and goes on when it
is called again: by the same command, or by hermes-release.service, which calls ``settle`` as long as a change of
release is not over.
"""

from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from hermesops.node.errors import NodeError
from hermesops.node.instance import fence, volume
from hermesops.node.instance.agent import gateway, readiness, turn
from hermesops.node.instance.agent.installation import Agent, agent_of
from hermesops.node.layout import DRAIN_MARKER
from hermesops.node.machine import Machine
from hermesops.node.release import activation as records
from hermesops.node.release import config_migration
from hermesops.node.release.activation import Activation, History, Phase
from hermesops.node.release.slots.managed_files import clear_rollback_files, occupant, take_rollback_files
from hermesops.node.state.snapshots import RestoreResult

_HEALTH_S = 60.0
_LOOK_S = 1.0
_GRACE_S = 20.0
"""For turns in progress: a release that is left may be one that never ends."""


def roll_back(machine: Machine, activation: Activation, why: str, *, confirm_timed_out: bool = False) -> dict[str, Any]:
    """Leave a release; the caller holds the machine's lock. Ends what was begun, wherever it was cut short.

    Args:
        machine: Which.
        activation: What is left.
        why: The reason; one that was written down before counts instead.
        confirm_timed_out: Whether it is that nobody was there to confirm it.

    Raises:
        NotReadyError: The data volume is closed, or a program failed: the same again goes on.
    """
    started = machine.system.monotonic()
    agent = agent_of(machine)
    if activation.phase is Phase.PREPARED:
        undo_preparation(machine, agent)
        return {"release": activation.before, "from": activation.to, "why": why, "gap_s": 0.0, "healthy": True}
    volume.refuse_closed(machine)
    activation = replace(
        activation,
        phase=Phase.GOING_BACK,
        why=activation.why or why,
        confirm_timed_out=activation.confirm_timed_out or confirm_timed_out,
    )
    # Best effort: on a full disk the record of before does as well.
    with suppress(OSError, NodeError):
        records.save(machine, activation)
    if machine.files.link_target(machine.layout.back) is not None:
        hold_gateway(machine)
        stop(machine, agent)
        put = _restore(machine, agent, activation)
        take_rollback_files(machine)
    else:
        put = _restore(machine, agent, activation)  # what a run that was killed has come to
    release_gateway(machine)
    machine.gate.open()
    healthy = _start_gateway(machine, agent, activation)
    gap = round(machine.system.monotonic() - started, 3)
    _remember(machine, activation, put)
    return {
        "release": activation.before,
        "from": activation.to,
        "why": activation.why,
        "gap_s": gap,
        "healthy": healthy,
        "rollback_method": activation.rollback_method,
        **asdict(put),
    }


def settle(machine: Machine) -> dict[str, Any]:
    """Wait until a change of release is over; end it where nobody else does. Returns at once where there is none."""
    while True:
        held = records.load(machine)
        if held is None:
            return {"state": "settled"}
        if records.is_due(machine, held):
            with machine.files.locked(machine.layout.lock):
                held = records.load(machine)
                if held is not None and records.is_due(machine, held):
                    return {"state": "went back", **_end(machine, held)}
        machine.system.sleep(_LOOK_S)


def settle_dead(machine: Machine) -> None:
    """End what somebody began who is dead by now; the caller holds the machine's lock."""
    held = records.load(machine)
    if held is not None and records.is_due(machine, held):
        _end(machine, held)


def _end(machine: Machine, held: Activation) -> dict[str, Any]:
    return roll_back(machine, held, _reason(machine, held), confirm_timed_out=held.phase is not Phase.GOING_BACK)


def undo_preparation(machine: Machine, agent: Agent) -> None:
    """Nothing was changed yet: let the agent go on as if nothing had been meant."""
    clear_rollback_files(machine)
    machine.remove(agent.home.path / DRAIN_MARKER)
    machine.gate.open()
    records.forget(machine)


def _reason(machine: Machine, held: Activation) -> str:
    if held.why:
        return held.why
    if not records.is_of_this_boot(machine):
        return "the machine was rebooted before the release was confirmed"
    if held.phase is Phase.UNCONFIRMED:
        return "nobody confirmed the release in time"
    return f"whoever brought the release died while it was {held.phase}"


def hold_gateway(machine: Machine) -> None:
    """From here on no boot and no hand starts the gateway: neither the slot nor the state is whole."""
    with suppress(OSError):  # on a disk so full that it has no room for a name
        machine.files.write_if_changed(machine.layout.restoring, b"", records.PRIVATE)


def release_gateway(machine: Machine) -> None:
    """Slot and state are whole again."""
    machine.remove(machine.layout.restoring)


def stop(machine: Machine, agent: Agent) -> None:
    """Stop the gateway, which finishes what it is at within a grace; one that does not end is killed."""
    unit, deadline = agent.base.unit, machine.system.monotonic() + _GRACE_S
    if not gateway.look(machine.system, unit).is_running:
        return
    machine.system.systemctl("stop", "--no-block", unit)
    while gateway.look(machine.system, unit).is_running:
        if machine.system.monotonic() >= deadline:
            machine.system.systemctl("kill", "--signal=KILL", unit, check=False)
            machine.system.systemctl("stop", unit)
            return
        machine.system.sleep(0.1)


def _restore(machine: Machine, agent: Agent, activation: Activation) -> RestoreResult:
    if not activation.kept:
        return RestoreResult()
    config_migration.end(machine)
    return machine.state.restore(agent.home, activation.kept)


def _start_gateway(machine: Machine, agent: Agent, activation: Activation) -> bool:
    """Start the gateway of the slot that is current, unless it is not to run; whether it is well."""
    machine.remove(agent.home.path / DRAIN_MARKER)
    payload = occupant(machine)
    if not activation.starts or payload is None or fence.is_fenced(machine):
        return True
    if not gateway.look(machine.system, agent.base.unit).is_running:
        gateway.start(machine.system, agent.base.unit)
    key = payload.secrets.api_server_key
    found = readiness.await_health(machine.system, agent.base.port, key, unit=agent.base.unit, timeout_s=_HEALTH_S)
    if found.ok:
        turn.forget_left(machine.system, agent.base.port, key)  # its agent may have been killed in the check's own turn
    return found.ok


def _remember(machine: Machine, activation: Activation, put: RestoreResult) -> None:
    held = records.history(machine)
    last = {
        "to": activation.to,
        "from": activation.before,
        "outcome": "confirm_timed_out" if activation.confirm_timed_out else "rolled_back",
        "why": activation.why,
        "at": machine.system.now(),
        **{f"rows_{name}" if name != "kept" else name: value for name, value in asdict(put).items()},
    }
    order = (activation.before, *(each for each in held.order if each != activation.before))
    # The slot that was left may be gone over to again, by an activation that tries it first.
    after = History(last=last, before="", kept="", order=order)
    with suppress(OSError):
        machine.files.write_if_changed(machine.layout.release_history, after.to_json(), records.PRIVATE)
    clear_rollback_files(machine)
    records.forget(machine)
