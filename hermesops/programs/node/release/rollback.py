"""``release rollback`` and ``release settle``: return to an older release, on request or when a new one times out.

Every step checks before it changes, and none needs room on the disk, so this may be killed anywhere and continues when
it is called again: by the same command, or by hermes-release.service, which calls ``settle`` during a change of
release.
"""

from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from hermesops.programs.node.instance import drain, fencing, volume
from hermesops.programs.node.instance.agent import gateway, readiness
from hermesops.programs.node.instance.agent.installation import Agent, agent_of, is_running
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release import activation as records
from hermesops.programs.node.release import config_migration
from hermesops.programs.node.release.activation import Activation, History, Phase
from hermesops.programs.node.release.fetch import held_revocations
from hermesops.programs.node.release.sandbox import try_out
from hermesops.programs.node.release.slots import slot
from hermesops.programs.node.release.slots.slot import clear_rollback_files, occupant, take_rollback_files
from hermesops.programs.node.state import backup
from hermesops.programs.node.state.snapshots import RestoreResult
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire.documents.lock import Lock
from hermesops.wire.errors import ExitCode, NodeError, NotReadyError, RefusedError
from hermesops.wire.layout import DRAIN_MARKER
from hermesops.wire.protocol import FencingToken

_ASKED = "somebody asked for it"
_HEALTH_S = 60.0
_LOOK_S = 1.0
_GRACE_S = 20.0
"""For turns in progress: the gateway of a bad release may never end by itself."""


def rollback(
    machine: Machine,
    *,
    to: str = "",
    loses: bool = False,
    even_revoked: bool = False,
    drain_s: float = 8.0,
    lease: FencingToken | None,
) -> tuple[dict[str, Any], ExitCode]:
    """Roll back to the previous slot, or to another one; return the answer and the exit code.

    An unconfirmed release is rolled back at once. May be repeated with ``to``, a slot; the default is the previous
    slot. ``loses`` permits losing rows written since, ``even_revoked`` a revoked release.

    Raises:
        RefusedError: There is no such slot, its release was revoked or is below the floor, or rows written since would
            be lost, and that was not allowed.
        OutrankedError: The lease was taken over.
    """
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        activation = records.load(machine)
        if activation is not None and to in {"", activation.before}:
            done = roll_back(machine, activation, _ASKED)
        elif activation is not None:
            raise RefusedError(
                f"release {activation.to} is unconfirmed here: first back to {activation.before}, then on to {to}"
            )
        elif to and to == slot.current(machine):
            return _repeated(machine, to), ExitCode.OK
        else:
            done = _switch_back(machine, to, loses=loses, even_revoked=even_revoked, drain_s=drain_s)
    return done, ExitCode.OK if done["healthy"] else ExitCode.FAILED


def preview(machine: Machine, *, to: str = "") -> dict[str, Any]:
    """The rows and settings that ``rollback`` would migrate and lose now. Changes nothing, and waits for no lock.

    Raises:
        RefusedError: There is no such slot.
        NotReadyError: A database cannot be read.
    """
    current, activation = slot.current(machine), records.load(machine)
    if activation is not None:
        target, kept = activation.before, activation.kept
        is_untouched = activation.phase is Phase.PREPARED
    else:
        target, kept = _target(machine, to)
        is_untouched = target == current
    answer = {"release": target, "from": activation.to if activation else current}
    if is_untouched:
        return {**answer, **asdict(RestoreResult())}
    agent, schema = agent_of(machine), slot.schema_of(slot.record_of(machine, target))
    result = machine.state.preview(agent.home, kept) if kept else RestoreResult()
    return {**answer, **asdict(result if result.kept else config_migration.preview(machine, agent, schema))}


def _target(machine: Machine, to: str) -> tuple[str, str]:
    """The slot of a rollback from a confirmed release, and the name of the state that is kept for it; empty for none.

    Raises:
        RefusedError: There is no such slot.
    """
    before = records.history(machine)
    target = to or before.before
    if not target:
        raise RefusedError("no previous slot is known: name a slot with hermes-node release rollback --to")
    if target not in machine.slots.names():
        raise RefusedError(f"there is no slot of release {target}; there are {', '.join(machine.slots.names())}")
    return target, before.kept if target == before.before else ""


def _repeated(machine: Machine, to: str) -> dict[str, Any]:
    """The answer of a rollback to the release that runs; names the settings again that the last rollback to it lost."""
    last = records.history(machine).last or {}
    lost = last.get("settings_lost") or () if last.get("from") == to else ()
    return {"release": to, "from": to, "gap_s": 0.0, **asdict(RestoreResult(settings_lost=tuple(lost)))}


def _switch_back(machine: Machine, to: str, *, loses: bool, even_revoked: bool, drain_s: float) -> dict[str, Any]:
    """Switch from a confirmed release to an older slot."""
    target, kept_copy = _target(machine, to)
    if not even_revoked:
        _refuse_revoked(machine, target)
    agent = agent_of(machine)
    preview = machine.state.preview(agent.home, kept_copy) if kept_copy else RestoreResult()
    if preview.kept:
        _refuse_loss(preview, loses=loses)
    elif (target != records.history(machine).before or kept_copy) and not loses:  # a copy is kept for a month
        _refuse_unreadable(machine, agent, target)
    starts = is_running(machine, agent)
    activation = Activation(slot.current(machine), target, Phase.PREPARED, kept_copy if preview.kept else "", starts)
    records.save(machine, activation)
    slot.stage_rollback_files(machine, target)
    # A gateway that never says what it is at is one that a rollback is for: its work is not waited for any longer.
    with suppress(NotReadyError):
        drain.finish_work(machine, agent, deadline_s=drain_s)
    return roll_back(machine, replace(activation, phase=Phase.GOING_BACK), _ASKED)


def _refuse_revoked(machine: Machine, target: str) -> None:
    """Refuse a slot with a revoked release."""
    lock = Lock.from_json(slot.record_of(machine, target)["lock"].encode())
    if why := held_revocations(machine).why_not(lock):
        raise RefusedError(f"release {target} {why}: --even-revoked permits it")


def _refuse_loss(preview: RestoreResult, *, loses: bool) -> None:
    if preview.listed and not loses:
        raise RefusedError(
            f"a rollback would migrate {preview.migrated} rows written since, and {preview.listed} do not fit into the "
            "older databases or not in full: --lose permits it and lists them"
        )


def _refuse_unreadable(machine: Machine, agent: Agent, target: str) -> None:
    """Refuse a slot that fails on a copy of the present state, as it did not run just before this one."""
    payload = slot.occupant(machine)
    if payload is None:
        return
    tried = try_out(machine, agent, payload, target)
    if not tried.ok:
        failing = next(check for check in tried.checks if not check.ok)
        raise RefusedError(
            f"release {target} does not run on the present state ({failing.name}: {failing.detail}): --lose"
        )


def roll_back(machine: Machine, activation: Activation, why: str, *, confirm_timed_out: bool = False) -> dict[str, Any]:
    """Undo a change of release; continues a rollback that was interrupted anywhere. The caller holds the lock.

    A reason that was recorded before has precedence over ``why``. ``confirm_timed_out`` says that it is only that
    nobody confirmed it.

    Raises:
        NotReadyError: The data volume is closed, or a program failed: the same command continues.
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
    # Best effort: on a full disk the earlier record serves as well.
    with suppress(OSError, NodeError):
        records.save(machine, activation)
    if machine.files.link_target(machine.layout.back) is not None:
        hold_gateway(machine)
        stop(machine, agent)
        restored = _restore(machine, agent, activation)
        take_rollback_files(machine)
    else:
        restored = _restore(machine, agent, activation)  # again: the result of a run that was killed
    release_gateway(machine)
    machine.gate.open()
    healthy = _start_gateway(machine, agent, activation)
    gap = round(machine.system.monotonic() - started, 3)
    _record(machine, activation, restored)
    return {
        "release": activation.before,
        "from": activation.to,
        "why": activation.why,
        "gap_s": gap,
        "healthy": healthy,
        "rollback_method": activation.rollback_method,
        **asdict(restored),
    }


def settle(machine: Machine) -> dict[str, Any]:
    """Wait until a change of release is finished; roll it back when it is due. Returns at once where there is none."""
    while True:
        activation = records.load(machine)
        if activation is None:
            return {"state": "settled"}
        if records.is_due(machine, activation):
            with machine.files.locked(machine.layout.lock):
                activation = records.load(machine)
                if activation is not None and records.is_due(machine, activation):
                    return {"state": "went back", **_end(machine, activation)}
        machine.system.sleep(_LOOK_S)


def settle_dead(machine: Machine) -> None:
    """Roll back a change after its process has died; the caller holds the machine's lock."""
    activation = records.load(machine)
    if activation is not None and records.is_due(machine, activation):
        _end(machine, activation)


def _end(machine: Machine, activation: Activation) -> dict[str, Any]:
    return roll_back(
        machine, activation, _reason(machine, activation), confirm_timed_out=activation.phase is not Phase.GOING_BACK
    )


def undo_preparation(machine: Machine, agent: Agent) -> None:
    """Give up a change that has not switched yet: the agent continues as before."""
    clear_rollback_files(machine)
    machine.remove(agent.home.path / DRAIN_MARKER)
    machine.gate.open()
    records.forget(machine)


def _reason(machine: Machine, activation: Activation) -> str:
    if activation.why:
        return activation.why
    if not records.is_of_this_boot(machine):
        return "the machine was rebooted before the release was confirmed"
    if activation.phase is Phase.UNCONFIRMED:
        return "nobody confirmed the release in time"
    return f"the process that changed the release died while it was {activation.phase}"


def hold_gateway(machine: Machine) -> None:
    """Let nothing start the gateway, no boot either, while slot and state are inconsistent."""
    with suppress(OSError):  # the disk may be too full for a name
        machine.files.write_if_changed(machine.layout.restoring, b"", PRIVATE)


def release_gateway(machine: Machine) -> None:
    """Let the gateway start: slot and state are consistent again."""
    machine.remove(machine.layout.restoring)


def stop(machine: Machine, agent: Agent) -> None:
    """Stop the gateway, which may finish its work for a grace period; then it is killed."""
    unit, deadline = agent.base.unit, machine.system.monotonic() + _GRACE_S
    if not gateway.observe(machine.system, unit).is_running:
        return
    machine.system.systemctl("stop", "--no-block", unit)
    while gateway.observe(machine.system, unit).is_running:
        if machine.system.monotonic() >= deadline:
            machine.system.systemctl("kill", "--signal=KILL", unit, check=False)
            machine.system.systemctl("stop", unit)
            return
        machine.system.sleep(0.1)


def _restore(machine: Machine, agent: Agent, activation: Activation) -> RestoreResult:
    if not activation.kept:
        return config_migration.take_back(machine, agent, activation.before)
    config_migration.end(machine)
    restored = machine.state.restore(agent.home, activation.kept)
    backup.note_replaced(machine)
    return restored


def _start_gateway(machine: Machine, agent: Agent, activation: Activation) -> bool:
    """Start the gateway of the current slot if it is to run; return whether it is healthy."""
    machine.remove(agent.home.path / DRAIN_MARKER)
    payload = occupant(machine)
    if not activation.starts or payload is None or fencing.is_fenced(machine):
        return True
    if not gateway.observe(machine.system, agent.base.unit).is_running:
        gateway.start(machine.system, agent.base.unit)
    key = payload.secrets.api_server_key
    check = readiness.await_health(machine.system, agent.base.port, key, unit=agent.base.unit, timeout_s=_HEALTH_S)
    if check.ok:
        # The agent may have been killed in the check's own turn.
        readiness.remove_left_sessions(machine.system, agent.base.port, key)
    return check.ok


def _record(machine: Machine, activation: Activation, restored: RestoreResult) -> None:
    history = records.history(machine)
    last = {
        "to": activation.to,
        "from": activation.before,
        "outcome": "confirm_timed_out" if activation.confirm_timed_out else "rolled_back",
        "why": activation.why,
        "at": machine.system.now(),
        **{
            f"rows_{name}" if name in {"migrated", "listed"} else name: value
            for name, value in asdict(restored).items()
        },
    }
    order = (activation.before, *(each for each in history.order if each != activation.before))
    # No slot before: the one that was left is only used again by an activation, which tries it first.
    after = History(last=last, before="", kept="", order=order)
    with suppress(OSError):
        machine.files.write_if_changed(machine.layout.release_history, after.to_json(), PRIVATE)
    clear_rollback_files(machine)
    records.forget(machine)
