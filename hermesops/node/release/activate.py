"""``release activate``: brings a machine to another release so that it comes back by itself.

Until the way back is laid nothing of the agent's is touched; from then on whatever goes wrong, this process's death
included, ends on the release that ran before. Never does a gateway run while the slot or its state changes.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from hermesops.node.errors import FAILED, UNFINISHED, NodeError, RefusedError
from hermesops.node.instance import drain, fence, fencing_token, volume
from hermesops.node.instance.agent import gateway, readiness
from hermesops.node.instance.agent.check import Check
from hermesops.node.instance.agent.installation import Agent, agent_of, is_running
from hermesops.node.layout import DRAIN_MARKER
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken, Payload
from hermesops.node.release import activation as records
from hermesops.node.release import config_migration, rollback
from hermesops.node.release.activation import Activation, Phase
from hermesops.node.release.documents.record import record_of_lock
from hermesops.node.release.fetch import fetched_lock, refuse
from hermesops.node.release.slots import links, managed_files
from hermesops.node.release.trial.plan import Tried
from hermesops.node.release.trial.run import try_out
from hermesops.node.state import backup

WATCH = "hermes-release.service"
"""Calls ``release settle`` while a change of release is not over; role ``hermes_node`` brings it."""


Tell = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """How.

    Attributes:
        confirm_s: Seconds in which it must be confirmed.
        drain_s: Seconds that the agent may take to finish what it is at.
        interrupts: Whether what it is still at then is cut off.
        tries: Whether it is tried on a copy of the state first.
    """

    confirm_s: float = 60.0
    drain_s: float = 60.0
    interrupts: bool = False
    tries: bool = True


class _FailedError(Exception):
    """The new release does not do."""

    def __init__(self, stage: str, why: str, found: tuple[Check, ...] = ()) -> None:
        super().__init__(why)
        self.stage = stage
        self.checks = found


@dataclass(frozen=True)
class _Change:
    """One run of it."""

    machine: Machine
    agent: Agent
    payload: Payload | None
    release: str
    options: Options
    tell: Tell
    started: float

    @property
    def takes_turns(self) -> bool:
        """Whether the agent has a model that answers it."""
        return self.machine.files.read(self.machine.layout.identity) is not None

    def seconds(self) -> float:
        return round(self.machine.system.monotonic() - self.started, 3)


def activate(
    machine: Machine, release: str, options: Options, *, lease: FencingToken | None, tell: Tell
) -> tuple[dict[str, Any], int]:
    """Bring a machine to a release that was fetched; what came of it, and the exit code.

    Safe to call twice: what is unconfirmed or active already is said to be so.

    Args:
        machine: Which.
        release: Its id.
        options: How.
        lease: Under which this is done.
        tell: Called with the name of each step that begins.

    Raises:
        RefusedError: It was not fetched, must not run, does not fit, or another one is unconfirmed.
        OutrankedError: The lease was taken over.
        NotReadyError: The machine lacks something; nothing was changed.
    """
    started = machine.system.monotonic()
    with machine.files.locked(machine.layout.release_lock):
        with machine.files.locked(machine.layout.lock):
            fencing_token.admit(machine, lease)
            rollback.settle_dead(machine)
        said = _is_done(machine, release)
        if said is not None:
            return said, 0
        machine.remove(machine.layout.activation_cancelled)
        lock = fetched_lock(machine, release)
        refuse(machine, lock)
        tell("installing")
        machine.slots.install(lock, record_of_lock(lock, machine.slots.python()))
        managed_files.adopt(machine)
        agent, payload = agent_of(machine), managed_files.occupant(machine)
        change = _Change(machine, agent, payload, release, options, tell, started)
        tried = Tried(())
        if options.tries and payload is not None:
            tell("trying")
            before = links.current(machine)
            tried = try_out(machine, agent, payload, release, before=before, takes_turns=change.takes_turns)
        if not tried.ok:
            return _refusal(change, _FailedError("trial", "the trial failed", tried.checks)), FAILED
        with machine.files.locked(machine.layout.lock):
            fencing_token.admit(machine, lease)
            rollback.settle_dead(machine)
            return _change(change, tried)


def _is_done(machine: Machine, release: str) -> dict[str, Any] | None:
    held = records.load(machine)
    if held is None:
        if links.current(machine) != release:
            return None
        return {"release": release, "from": release, "state": "active", "checks": [], "gap_s": 0.0}
    if held.to != release:
        raise RefusedError(f"release {held.to} is unconfirmed here: hermes-node release confirm or rollback")
    left = max(0.0, held.deadline - machine.system.monotonic())
    return {**held.answer, "confirm_by_s": round(left, 1)}


def _change(change: _Change, tried: Tried) -> tuple[dict[str, Any], int]:
    machine, agent = change.machine, change.agent
    before = links.current(machine)
    volume.refuse_closed(machine)
    backup.settle(machine, agent)
    starts = is_running(machine, agent) and not fence.is_fenced(machine)
    if config_migration.is_due(machine, agent, change.release):  # it keeps no copy of its own
        tried = replace(tried, rollback_method="copy")
    kept = f"{int(machine.system.now())}-{change.release}" if tried.rollback_method == "copy" else ""
    held = Activation(change.release, before, Phase.PREPARED, kept, starts)
    records.save(machine, held)
    try:
        machine.system.systemctl("start", "--no-block", WATCH)  # without it nobody would bring the machine back
        managed_files.stage_rollback_files(machine, before)
        change.tell("draining")
        drained_from = machine.system.monotonic()
        busy = drain.finish_work(
            machine, agent, deadline_s=change.options.drain_s, is_cancelled=lambda: records.is_cancelled(machine)
        )
        if why := _why_not_now(change, busy):
            rollback.undo_preparation(machine, agent)
            return {"error": why, "busy": busy, "release": before}, UNFINISHED
        drained = machine.system.monotonic() - drained_from
        machine.gate.close(agent.base.port)
    except (NodeError, OSError):
        rollback.undo_preparation(machine, agent)
        raise
    return _switch(change, held, tried, drained)


def _why_not_now(change: _Change, busy: Mapping[str, int]) -> str:
    if records.is_cancelled(change.machine):
        return "it was cancelled"
    return "" if drain.is_idle(busy) or change.options.interrupts else "the agent is still at work"


def _switch(change: _Change, held: Activation, tried: Tried, drained_s: float) -> tuple[dict[str, Any], int]:
    machine = change.machine
    held = replace(held, phase=Phase.SWITCHING)
    stopped = machine.system.monotonic()
    try:
        records.save(machine, held)
        rollback.hold_gateway(machine)
        found = _go_over(change, held)
        answer = {
            "release": held.to,
            "from": held.before,
            "state": Phase.UNCONFIRMED.value,
            "confirm_by_s": change.options.confirm_s,
            "checks": [asdict(check) for check in found],
            "gap_s": round(machine.system.monotonic() - stopped, 3),
            "drained_s": round(drained_s, 3),
            "rollback_method": tried.rollback_method,
            "way_back_why": tried.why,
            "trial": [asdict(check) for check in tried.checks],
            "trial_s": tried.seconds,
            "seconds": change.seconds(),
        }
        deadline = machine.system.monotonic() + change.options.confirm_s
        records.save(machine, replace(held, phase=Phase.UNCONFIRMED, deadline=deadline, answer=answer))
        machine.gate.open()
    except (_FailedError, NodeError, OSError) as error:
        failure = error if isinstance(error, _FailedError) else _FailedError("switch", str(error))
        change.tell("going back")
        back = rollback.roll_back(machine, held, f"{failure.stage}: {failure}")
        return {**_refusal(change, failure), "went_back": back}, FAILED
    return answer, 0


def _go_over(change: _Change, held: Activation) -> tuple[Check, ...]:
    """From the stop to the last check."""
    machine, agent = change.machine, change.agent
    change.tell("switching")
    rollback.stop(machine, agent)
    if held.kept:
        machine.state.keep(agent.home, held.kept)
    managed_files.go_over(machine, held.to)
    if held.kept and config_migration.is_due(machine, agent, held.to):
        change.tell("migrating")
        config_migration.migrate(machine, agent, held.to)
    rollback.release_gateway(machine)
    machine.remove(agent.home.path / DRAIN_MARKER)
    if not held.starts or change.payload is None:
        return ()
    change.tell("starting")
    gateway.start(machine.system, agent.base.unit)
    with suppress(OSError):
        machine.remove(machine.layout.stale)  # it starts with what is written now
        machine.remove(machine.layout.unread)
    found = readiness.ask_all(
        machine.system,
        agent.base.port,
        change.payload.secrets.api_server_key,
        unit=agent.base.unit,
        takes_turns=change.takes_turns,
    )
    if not all(check.ok for check in found):
        raise _FailedError("checks", f"{found[-1].name}: {found[-1].detail}", found)
    return found


def _refusal(change: _Change, failure: _FailedError) -> dict[str, Any]:
    worst = next((f"{check.name}: {check.detail}" for check in failure.checks if not check.ok), str(failure))
    return {
        "error": f"release {change.release} does not do here: {worst}",
        "stage": failure.stage,
        "checks": [asdict(check) for check in failure.checks],
        "release": links.current(change.machine),
        "seconds": change.seconds(),
    }
