"""``release activate`` and ``release confirm``: change a machine's release so that it rolls back by itself.

Until the rollback files are staged, nothing of the agent's is touched; from then on any failure, this process's death
included, ends on the release that ran before. A gateway never runs while its slot or state changes.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from hermesops.programs.node.instance import drain, fencing, volume
from hermesops.programs.node.instance.agent import gateway, readiness
from hermesops.programs.node.instance.agent.installation import Agent, agent_of, is_running
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.ports import TrialResult
from hermesops.programs.node.release import activation as records
from hermesops.programs.node.release import config_migration, rollback
from hermesops.programs.node.release.activation import Activation, History, Phase
from hermesops.programs.node.release.fetch import fetched_lock, refuse
from hermesops.programs.node.release.sandbox import try_out
from hermesops.programs.node.release.slots import slot
from hermesops.programs.node.release.slots.slot import record_of_lock
from hermesops.programs.node.state import backup
from hermesops.programs.node.state.snapshots import RestoreResult
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire.errors import ExitCode, NodeError, NotReadyError, RefusedError
from hermesops.wire.layout import DRAIN_MARKER
from hermesops.wire.protocol import Check, FencingToken, Payload

WATCH = "hermes-release.service"
"""Calls ``release settle`` during a change of release; role ``hermes_node`` installs it."""


@dataclass(frozen=True)
class Options:
    """Options of ``release activate``.

    Attributes:
        confirm_s: Seconds in which the release must be confirmed.
        drain_s: Seconds that the agent may take to finish its work.
        interrupts: Whether unfinished work is interrupted then.
        tries: Whether the release is tried on a copy of the state first.
    """

    confirm_s: float = 60.0
    drain_s: float = 60.0
    interrupts: bool = False
    tries: bool = True


class _FailedError(Exception):
    """A stage of the new release's start failed."""

    def __init__(self, stage: str, why: str, checks: tuple[Check, ...] = ()) -> None:
        super().__init__(why)
        self.stage = stage
        self.checks = checks


@dataclass(frozen=True)
class _Change:
    """One run of ``activate`` on a machine."""

    machine: Machine
    agent: Agent
    payload: Payload | None
    release: str
    options: Options
    progress: Callable[[str], None]
    started: float

    @property
    def takes_turns(self) -> bool:
        """Whether there is a model for the agent that the platform may ask.

        A turn by the user's own provider would be on the user's bill, and its failure says nothing of a release.
        """
        has_instance = self.machine.files.read(self.machine.layout.identity) is not None
        return has_instance and not (self.payload and self.payload.settings.endpoint)

    def seconds(self) -> float:
        return round(self.machine.system.monotonic() - self.started, 3)


def activate(
    machine: Machine, release: str, options: Options, *, lease: FencingToken | None, progress: Callable[[str], None]
) -> tuple[dict[str, Any], ExitCode]:
    """Change a machine's release to a fetched one; return the answer and the exit code.

    May be repeated: a release that is already unconfirmed or active is reported as such. ``progress`` is called with
    the name of each step that begins.

    Raises:
        RefusedError: It was not fetched, was revoked, does not fit, or another one is unconfirmed.
        OutrankedError: The lease was taken over.
        NotReadyError: The machine lacks something; nothing was changed.
    """
    started = machine.system.monotonic()
    with machine.files.locked(machine.layout.release_lock):
        with machine.files.locked(machine.layout.lock):
            fencing.admit(machine, lease)
            rollback.settle_dead(machine)
        done = _done(machine, release)
        if done is not None:
            return done, ExitCode.OK
        machine.remove(machine.layout.activation_cancelled)
        progress("installing")
        _install(machine, release)
        agent, payload = agent_of(machine), slot.occupant(machine)
        change = _Change(machine, agent, payload, release, options, progress, started)
        tried = TrialResult(())
        if options.tries and payload is not None:
            progress("trying")
            before = slot.current(machine)
            tried = try_out(machine, agent, payload, release, before=before, takes_turns=change.takes_turns)
        if not tried.ok:
            return _refusal(change, _FailedError("trial", "the trial failed", tried.checks)), ExitCode.FAILED
        with machine.files.locked(machine.layout.lock):
            fencing.admit(machine, lease)
            rollback.settle_dead(machine)
            return _change(change, tried)


def install(machine: Machine, release: str, *, lease: FencingToken | None) -> dict[str, Any]:
    """Install a fetched release into its slot. The first slot of a machine becomes current; its gateway is not started.

    Raises:
        RefusedError: It was not fetched, was revoked, or does not fit.
        OutrankedError: The lease was taken over.
        NotReadyError: The machine lacks something.
    """
    with machine.files.locked(machine.layout.release_lock):
        with machine.files.locked(machine.layout.lock):
            fencing.admit(machine, lease)
        _install(machine, release)
        with machine.files.locked(machine.layout.lock):
            if not slot.current(machine):
                slot.switch_to(machine, release)
    return {"release": release, "current": slot.current(machine)}


def _install(machine: Machine, release: str) -> None:
    lock = fetched_lock(machine, release)
    refuse(machine, lock)
    machine.slots.install(lock, record_of_lock(lock, machine.slots.python()))


def ask_untouched(machine: Machine) -> dict[str, Any]:
    """Run the checks of a change on the present gateway; no checks if none runs.

    A check that fails before a change says nothing about the release by failing after it.
    """
    agent, payload = agent_of(machine), slot.occupant(machine)
    if payload is None or not is_running(machine, agent):
        return {"checks": []}
    checks = readiness.ask_running(machine.system, agent.base.port, payload.secrets.api_server_key)
    return {"checks": [asdict(check) for check in checks]}


def preview(machine: Machine, schema: int) -> dict[str, Any]:
    """The settings that ``activate`` would migrate and lose now for a release; changes nothing, and waits for no lock.

    Args:
        schema: Of the configuration that the release writes. It need not be on the machine.

    Raises:
        NotReadyError: The user's configuration cannot be read.
    """
    result = config_migration.preview(machine, agent_of(machine), schema)
    return {"release": "", "from": slot.current(machine), **asdict(result)}


def _done(machine: Machine, release: str) -> dict[str, Any] | None:
    activation = records.load(machine)
    if activation is None:
        if slot.current(machine) != release:
            return None
        return {"release": release, "from": release, "state": "active", "checks": [], "gap_s": 0.0}
    if activation.to != release:
        raise RefusedError(f"release {activation.to} is unconfirmed here: hermes-node release confirm or rollback")
    left = max(0.0, activation.deadline - machine.system.monotonic())
    return {**activation.answer, "confirm_by_s": round(left, 1)}


def _change(change: _Change, tried: TrialResult) -> tuple[dict[str, Any], ExitCode]:
    machine, agent = change.machine, change.agent
    before = slot.current(machine)
    volume.refuse_closed(machine)
    backup.settle(machine, agent)
    starts = is_running(machine, agent) and not fencing.is_fenced(machine)
    # A migration keeps no copy of its own, and what a newer agent wrote is put back as it was.
    if config_migration.is_due(machine, agent, change.release) or config_migration.is_newer(
        machine, agent, change.release
    ):
        tried = replace(tried, rollback_method="copy")
    kept_copy = f"{int(machine.system.now())}-{change.release}" if tried.rollback_method == "copy" else ""
    activation = Activation(change.release, before, Phase.PREPARED, kept_copy, starts)
    records.save(machine, activation)
    try:
        machine.system.systemctl("start", "--no-block", WATCH)  # without it nothing would roll the machine back
        slot.stage_rollback_files(machine, before)
        change.progress("draining")
        drained_from = machine.system.monotonic()
        busy = drain.finish_work(
            machine, agent, deadline_s=change.options.drain_s, is_cancelled=lambda: records.is_cancelled(machine)
        )
        is_cancelled, waits = records.is_cancelled(machine), not change.options.interrupts and not drain.is_idle(busy)
        if is_cancelled or waits:
            rollback.undo_preparation(machine, agent)
            why = "the change was cancelled" if is_cancelled else "the agent is still working"
            return {"error": why, "busy": busy, "release": before}, ExitCode.UNFINISHED
        drained = machine.system.monotonic() - drained_from
        machine.gate.close(agent.base.port)
    except (NodeError, OSError):
        rollback.undo_preparation(machine, agent)
        raise
    return _switch(change, activation, tried, drained)


def _switch(
    change: _Change, activation: Activation, tried: TrialResult, drained_s: float
) -> tuple[dict[str, Any], ExitCode]:
    machine = change.machine
    activation = replace(activation, phase=Phase.SWITCHING)
    stopped = machine.system.monotonic()
    try:
        records.save(machine, activation)
        rollback.hold_gateway(machine)
        checks, restored = _switch_slot(change, activation)
        answer = {
            "release": activation.to,
            "from": activation.before,
            "state": Phase.UNCONFIRMED.value,
            "confirm_by_s": change.options.confirm_s,
            "checks": [asdict(check) for check in checks],
            "gap_s": round(machine.system.monotonic() - stopped, 3),
            "drained_s": round(drained_s, 3),
            "rollback_method": tried.rollback_method,
            "way_back_why": tried.why,
            "settings_migrated": restored.settings_migrated,
            "settings_lost": list(restored.settings_lost),
            "trial": [asdict(check) for check in tried.checks],
            "trial_s": tried.seconds,
            "seconds": change.seconds(),
        }
        deadline = machine.system.monotonic() + change.options.confirm_s
        records.save(machine, replace(activation, phase=Phase.UNCONFIRMED, deadline=deadline, answer=answer))
        machine.gate.open()
    except (_FailedError, NodeError, OSError) as error:
        failure = error if isinstance(error, _FailedError) else _FailedError("switch", str(error))
        change.progress("going back")
        back = rollback.roll_back(machine, activation, f"{failure.stage}: {failure}")
        return {**_refusal(change, failure), "rolled_back": back}, ExitCode.FAILED
    return answer, ExitCode.OK


def _switch_slot(change: _Change, activation: Activation) -> tuple[tuple[Check, ...], RestoreResult]:
    """Stop the gateway, switch the slot, start the gateway and check it; return the checks and the user's settings."""
    machine, agent = change.machine, change.agent
    change.progress("switching")
    rollback.stop(machine, agent)
    if activation.kept:
        machine.state.keep(agent.home, activation.kept)
    slot.switch_to(machine, activation.to)
    if activation.kept and config_migration.is_due(machine, agent, activation.to):
        change.progress("migrating")
        config_migration.migrate(machine, agent, activation.to)
    restored = config_migration.take_back(machine, agent, activation.to) if activation.kept else RestoreResult()
    rollback.release_gateway(machine)
    machine.remove(agent.home.path / DRAIN_MARKER)
    if not activation.starts or change.payload is None:
        return (), restored
    change.progress("starting")
    gateway.start(machine.system, agent.base.unit)
    with suppress(OSError):
        machine.remove(machine.layout.stale)  # it starts with the present files
        machine.remove(machine.layout.unread)
    checks = readiness.ask_all(
        machine.system,
        agent.base.port,
        change.payload.secrets.api_server_key,
        unit=agent.base.unit,
        takes_turns=change.takes_turns,
    )
    if not all(check.ok for check in checks):
        raise _FailedError("checks", f"{checks[-1].name}: {checks[-1].detail}", checks)
    return checks, restored


def _refusal(change: _Change, failure: _FailedError) -> dict[str, Any]:
    worst = next((f"{check.name}: {check.detail}" for check in failure.checks if not check.ok), str(failure))
    return {
        "error": f"release {change.release} fails here: {worst}",
        "stage": failure.stage,
        "checks": [asdict(check) for check in failure.checks],
        "release": slot.current(change.machine),
        "seconds": change.seconds(),
    }


def confirm(machine: Machine, release: str, *, lease: FencingToken | None) -> dict[str, Any]:
    """Confirm a release, so that it is not rolled back.

    Raises:
        RefusedError: It is not unconfirmed here: it was rolled back, or another one runs.
        NotReadyError: Its gateway does not answer.
        OutrankedError: The lease was taken over.
    """
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        activation = records.load(machine)
        if activation is None and slot.current(machine) == release:
            return {"release": release, "state": "active"}
        if activation is None or activation.to != release or records.is_due(machine, activation):
            last = records.history(machine).last or {}
            raise RefusedError(
                f"release {release} is not unconfirmed here: {slot.current(machine)} runs. {last.get('why', '')}"
            )
        agent = agent_of(machine)
        if activation.starts and machine.system.ask(agent.base.port, "/health").status == 0:
            raise NotReadyError(f"release {release} is not confirmed: its gateway does not answer")
        before = records.history(machine)
        last = {
            "to": activation.to,
            "from": activation.before,
            "outcome": "confirmed",
            "why": "",
            "at": machine.system.now(),
        }
        order = (
            activation.to,
            activation.before,
            *(each for each in before.order if each not in {activation.to, activation.before}),
        )
        # The history first: killed after it, the next call finds it confirmed; killed before, the machine rolls back.
        after = History(last, activation.before, activation.kept, order)
        machine.files.write_if_changed(machine.layout.release_history, after.to_json(), PRIVATE)
        records.forget(machine)
        slot.clear_rollback_files(machine)
    return {"release": release, "from": activation.before, "state": "active"}
