"""Folds Ansible's events into results. Pure: no file, no clock.

Events of tasks with ``no_log`` arrive censored by Ansible; nothing here looks behind that.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hermesops.converge.result import HostResult, TaskFailure

_STDERR_CHARS = 2000


@dataclass
class _HostEvents:
    ok: int = 0
    skipped: int = 0
    changed: list[str] = field(default_factory=list)
    failure: TaskFailure | None = None
    unreachable: bool = False


class EventFold:
    """What a run's events say so far.

    Args:
        tell: Called with a line of narration when a task starts.
    """

    def __init__(self, hosts: tuple[str, ...], tell: Callable[[str], None] | None = None) -> None:
        self._seen = {host: _HostEvents() for host in hosts}
        self._tell = tell
        self.finished = False

    def take(self, event: Mapping[str, Any]) -> None:
        """Take in one event of ansible-runner."""
        data = event.get("event_data") or {}
        kind = event.get("event")
        if kind == "playbook_on_task_start" and self._tell:
            self._tell(_task(data))
        elif kind == "playbook_on_stats":
            self._settle(data)
        seen = self._seen.get(data.get("host", ""))
        if seen is not None:
            _note(seen, str(kind), data)

    def _settle(self, data: Mapping[str, Any]) -> None:
        """The end's own count knows which failures were rescued."""
        self.finished = True
        for host, seen in self._seen.items():
            if host not in (data.get("failures") or {}) and host not in (data.get("dark") or {}):
                seen.failure, seen.unreachable = None, False

    def results(self) -> dict[str, HostResult]:
        """What became of each host; one that the run did not finish counts as failed."""
        return {host: self._result(host, seen) for host, seen in self._seen.items()}

    def _result(self, host: str, seen: _HostEvents) -> HostResult:
        status: Literal["done", "failed", "unreachable"] = "done"
        failure = seen.failure
        if seen.unreachable:
            status = "unreachable"
        elif failure is not None:
            status = "failed"
        elif not self.finished:
            status, failure = "failed", TaskFailure("(the run)", "it ended before this host was done")
        elif not seen.ok and not seen.skipped:
            status, failure = "failed", TaskFailure("(the play)", "no task ran: the host is in none of its groups")
        return HostResult(host, status, seen.ok, seen.skipped, tuple(seen.changed), failure)


def _note(seen: _HostEvents, kind: str, data: Mapping[str, Any]) -> None:
    result = data.get("res") or {}
    if kind == "runner_on_ok":
        seen.ok += 1
        if result.get("changed"):
            seen.changed.append(_task(data))
    elif kind == "runner_on_skipped":
        seen.skipped += 1
    elif kind == "runner_on_unreachable":
        seen.unreachable = True
        seen.failure = _failure(data, result)
    elif kind == "runner_on_failed":
        if data.get("ignore_errors"):
            seen.ok += 1
        else:
            seen.failure = _failure(data, result)


def _task(data: Mapping[str, Any]) -> str:
    role, task = data.get("role"), str(data.get("task") or data.get("name") or "?")
    return f"{role} : {task}" if role else task


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
    return TaskFailure(_task(data), message.strip(), stderr[-_STDERR_CHARS:].strip())
