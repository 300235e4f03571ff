"""Results of a run for each host, folded from Ansible's events. Pure: no file, no clock.

Events of tasks with ``no_log`` arrive censored by Ansible and stay so.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hermesops.errors import HermesError, PartlyDoneError, UnavailableError
from hermesops.wire.foreign_text import one_line

REPEAT = "repeat the same command once the cause is gone: finished steps are skipped"
_STDERR_CHARS = 2000
_LOG_LINES = 10
_UNIT_CHARS = 128
_UNITS = 20


@dataclass(frozen=True)
class TaskFailure:
    """The task that ended a host's run.

    Attributes:
        task: Its name, with its role's before it where it is of one.
        message: What the module said; of a task with ``no_log`` only that it is withheld.
        stderr: The end of its error output; may be empty.
        unit: Of systemd, that did not come up; empty where it was not that.
        log: The last lines that this unit wrote, each safe to show, oldest first.
    """

    task: str
    message: str
    stderr: str = ""
    unit: str = ""
    log: tuple[str, ...] = ()

    @property
    def telling(self) -> str:
        """The line of the unit's log that says most: the last one that names an error, else the last one."""
        errors = [line for line in self.log if "error" in line.lower()]
        return (errors or [*self.log] or [""])[-1]


@dataclass(frozen=True)
class HostResult:
    """The result of a run on one host.

    Attributes:
        status: ``unreachable`` says nothing about the host's state; ``failed`` that it is halfway.
        ok: Tasks that were as they should be, or were made so.
        changed: Names of the tasks that changed something, in order, with the units of systemd that one brought
            somewhere; at the end ``HIDDEN`` for each with secrets.
    """

    host: str
    status: Literal["done", "failed", "unreachable"]
    ok: int
    skipped: int
    changed: tuple[str, ...]
    failure: TaskFailure | None = None


@dataclass(frozen=True)
class Converged:
    """The results of a run on all hosts.

    Attributes:
        output: The last lines that Ansible printed, for people.
    """

    playbook: str
    hosts: Mapping[str, HostResult]
    seconds: float
    output: str = ""

    @property
    def ok(self) -> bool:
        """Whether every host is as the playbook says."""
        return all(host.status == "done" for host in self.hosts.values())

    @property
    def changed(self) -> tuple[str, ...]:
        """The tasks that changed something, once for each host where they did."""
        return tuple(task for host in self.hosts.values() for task in host.changed)

    def hiding(self, hide: Callable[[str], str]) -> "Converged":
        """Mask secrets in the log lines of failures."""
        hosts = {
            name: replace(host, failure=replace(host.failure, log=tuple(map(hide, host.failure.log))))
            if host.failure
            else host
            for name, host in self.hosts.items()
        }
        return replace(self, hosts=hosts)

    def require_ok(self) -> None:
        """Do nothing when every host is done.

        Raises:
            UnavailableError: No host could be reached; nothing changed.
            PartlyDoneError: A host failed; the message names each with its task.
        """
        bad = [host for host in self.hosts.values() if host.status != "done"]
        if not bad:
            return
        described = "; ".join(_described(host) for host in bad)
        kind: type[HermesError] = PartlyDoneError
        if len(bad) == len(self.hosts) and all(host.status == "unreachable" and not host.changed for host in bad):
            kind = UnavailableError
        raise kind(
            f"{self.playbook}: {len(bad)} of {len(self.hosts)} machines are not done: {described}",
            hint=REPEAT,
        )


def _described(host: HostResult) -> str:
    if host.failure is None:
        return f"{host.host}: {host.status}"
    message = " ".join(f"{host.failure.message} {host.failure.stderr}".split())[:400]
    message_or_log = f"{message}: {host.failure.telling}" if host.failure.log else message
    if host.status == "failed":
        return f"{host.host}: step {host.failure.task!r} failed: {message_or_log}"
    return f"{host.host}: {host.status} at {host.failure.task!r}: {message_or_log}"


HIDDEN = "(a task with secrets)"
"""Stands for the name of a task whose result Ansible does not tell."""


@dataclass
class _HostEvents:
    ok: int = 0
    skipped: int = 0
    changed: list[str] = field(default_factory=list)
    failure: TaskFailure | None = None
    unreachable: bool = False


class EventFold:
    """Collects the events of a run and derives the result for each host.

    Args:
        report: Called with a line of narration when a task starts.
    """

    def __init__(self, hosts: tuple[str, ...], report: Callable[[str], None] | None = None) -> None:
        self._seen = {host: _HostEvents() for host in hosts}
        self._report = report
        self.finished = False

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one event of ansible-runner."""
        data = event.get("event_data") or {}
        kind = event.get("event")
        if kind == "playbook_on_task_start" and self._report and not _is_added(data):
            self._report(_task(data))
        elif kind == "playbook_on_stats":
            self.finished = True
            self._forgive_rescued(data)
            self._count_hidden(data)
        events = self._seen.get(data.get("host", ""))
        if events is not None:
            _note(events, str(kind), data)

    def _forgive_rescued(self, data: Mapping[str, Any]) -> None:
        """Drop failures that a rescue handled: only the counts at the end tell."""
        for host, events in self._seen.items():
            if host not in (data.get("failures") or {}) and host not in (data.get("dark") or {}):
                events.failure, events.unreachable = None, False

    def _count_hidden(self, data: Mapping[str, Any]) -> None:
        """Add the tasks with ``no_log`` that changed something: of those ansible-runner says only how many there are.

        Source: ansible-runner 2.4, ``capture_event_data`` in ``awx_display.py``.
        """
        counts = data.get("changed") or {}
        for host, events in self._seen.items():
            hidden = int(counts.get(host, 0)) - len(events.changed)
            events.changed += [HIDDEN] * hidden

    def results(self) -> dict[str, HostResult]:
        """Results by host; a host that the run did not finish counts as failed."""
        return {host: self._result(host, events) for host, events in self._seen.items()}

    def _result(self, host: str, events: _HostEvents) -> HostResult:
        status: Literal["done", "failed", "unreachable"] = "done"
        failure = events.failure
        if events.unreachable:
            status = "unreachable"
        elif failure is not None:
            status = "failed"
        elif not self.finished:
            status, failure = "failed", TaskFailure("(the run)", "it ended before this host was done")
        elif not events.ok and not events.skipped:
            status, failure = "failed", TaskFailure("(the play)", "no task ran: the host is in none of its groups")
        return HostResult(host, status, events.ok, events.skipped, tuple(events.changed), failure)


def _note(events: _HostEvents, kind: str, data: Mapping[str, Any]) -> None:
    result = data.get("res") or {}
    if kind == "runner_on_ok":
        events.ok += 1
        if result.get("changed"):
            events.changed.append(_task(data) + _units(result))
    elif kind == "runner_on_skipped":
        events.skipped += 1
    elif kind == "runner_on_unreachable":
        events.unreachable = True
        events.failure = _failure(data, result)
    elif kind == "runner_on_failed":
        if data.get("ignore_errors"):
            events.ok += 1
        else:
            events.failure = _failure(data, result)


def _is_added(data: Mapping[str, Any]) -> bool:
    """Whether Ansible added a task by itself: the check of a role's arguments, which no role of ours writes."""
    return str(data.get("task_action")).rpartition(".")[2] == "validate_argument_spec"


def _task(data: Mapping[str, Any]) -> str:
    role, task = data.get("role"), str(data.get("task") or data.get("name") or "?")
    return f"{role} : {task}" if role else task


def _units(result: Mapping[str, Any]) -> str:
    """The units that module ``hermes_units`` brought somewhere, in parentheses; empty for other modules."""
    steps = result.get("changed_units")
    if not isinstance(steps, list) or not steps:
        return ""
    named = [one_line(str(step))[:_UNIT_CHARS] for step in steps[:_UNITS]]
    return f" ({', '.join(named)}{', …' if len(steps) > _UNITS else ''})"


def _failure(data: Mapping[str, Any], result: Mapping[str, Any]) -> TaskFailure:
    if "censored" in result:
        return TaskFailure(_task(data), "withheld: the task handles secrets (no_log)")
    # A loop says only that one of its items failed; the item says what.
    for item in result.get("results") or ():
        if isinstance(item, Mapping) and item.get("failed") and "censored" not in item:
            result = item
            break
    message = str(result.get("msg") or result.get("reason") or "")
    stderr = str(result.get("stderr") or result.get("module_stderr") or "")
    if not stderr and "rc" in result:
        stderr = str(result.get("stdout") or result.get("module_stdout") or "")
    log = result.get("log") if isinstance(result.get("log"), list) else []
    return TaskFailure(
        _task(data),
        message.strip(),
        stderr[-_STDERR_CHARS:].strip(),
        unit=str(result.get("unit") or "")[:_UNIT_CHARS],
        log=tuple(one_line(str(line)) for line in (log or [])[-_LOG_LINES:]),
    )
