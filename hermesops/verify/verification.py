"""Verifies a machine, in one round trip or one by one as testinfra would, and recognises known failures."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from testinfra.host import Host

from hermesops.channel import Channel, Completed
from hermesops.errors import HermesError
from hermesops.model.check import Check, Verdict
from hermesops.verify.backend import ChannelBackend, CommandTooSlowError, answers_of, command_of, commands_of
from hermesops.verify.checks.agent import AGENT_PROMISES
from hermesops.verify.checks.machine import MACHINE_PROMISES
from hermesops.verify.checks.promise import BrokenPromiseError, Expected, Promise, UnseenError
from hermesops.verify.failure_catalog import Finding, diagnose
from hermesops.verify.observations import look_command, observed

WITHOUT_USER = MACHINE_PROMISES
"""Checks of a machine without an instance, as one from a new image."""

PROMISES = (*WITHOUT_USER, *AGENT_PROMISES)

QUICK = tuple(promise for promise in PROMISES if not promise.slow)
"""Without the turn that asks the model."""


_QUICK_S = 20.0
_SLOW_S = 75.0

_UNREADABLE = (AssertionError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError, ValueError)
"""What testinfra and our own reading raise when a command prints something else than either knows."""


@dataclass(frozen=True)
class Verification:
    """The result for one machine.

    Attributes:
        checks: One for each promise, in their order.
        findings: The known failures that explain failed checks.
        round_trips: How often the machine was asked.
    """

    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    round_trips: int

    @property
    def is_ok(self) -> bool:
        """Whether every promise holds and no failure was recognised."""
        return not self.findings and all(check.verdict is Verdict.OK for check in self.checks)

    def for_user(self, user: str) -> tuple[Check, ...]:
        """Findings first, then all checks, with commands that name the user."""
        named = (Check(f"diagnosis:{f.failure}", Verdict.FAILED, f.seen, f.hint) for f in self.findings)
        return tuple(
            Check(check.name, check.verdict, check.seen, check.hint.replace("USER", user))
            for check in (*named, *self.checks)
        )


async def verify(channel: Channel, expected: Expected, promises: Sequence[Promise] = PROMISES) -> Verification:
    """Check all promises of a machine in one round trip, plus one for each command that was not foreseen.

    A machine that does not answer makes every check ``unknown``; nothing is raised.

    Args:
        channel: The way to the machine; commands run as root and change nothing.
        expected: What the registry says about it.
        promises: What to check.
    """
    # The probe runs in any case: known failures are recognised by it.
    commands = tuple(dict.fromkeys((*commands_of(promises, expected), look_command())))
    limit_s = _SLOW_S if any(promise.slow for promise in promises) else _QUICK_S
    try:
        completed = await channel.run(command_of(commands, limit_s=limit_s), timeout_s=limit_s + 10)
        answers = answers_of(commands, completed)
    except HermesError as error:
        unknown = (Check(promise.name, Verdict.UNKNOWN, error.message, error.hint) for promise in promises)
        return Verification(tuple(unknown), (), 1)
    backend = ChannelBackend(channel.machine_id, _from_thread(channel), answers)
    checks, findings = await asyncio.to_thread(_judge, backend, expected, promises)
    return Verification(checks, findings, 1 + len(backend.direct))


async def verify_one_by_one(
    channel: Channel, expected: Expected, promises: Sequence[Promise] = PROMISES
) -> Verification:
    """The same verdicts with one round trip for each command, as testinfra does it."""
    backend = ChannelBackend(channel.machine_id, _from_thread(channel))
    checks, findings = await asyncio.to_thread(_judge, backend, expected, promises)
    return Verification(checks, findings, len(backend.direct))


def _from_thread(channel: Channel, *, timeout_s: float = _SLOW_S) -> "_DirectRun":
    return _DirectRun(channel, asyncio.get_running_loop(), timeout_s)


class _DirectRun:
    """Runs a command over an async channel for code that is not asynchronous and in another thread."""

    def __init__(self, channel: Channel, loop: asyncio.AbstractEventLoop, timeout_s: float) -> None:
        self._channel = channel
        self._loop = loop
        self._timeout_s = timeout_s

    def __call__(self, command: str) -> Completed:
        running = asyncio.run_coroutine_threadsafe(self._channel.run(command, timeout_s=self._timeout_s), self._loop)
        return running.result()


def _judge(
    backend: ChannelBackend, expected: Expected, promises: Iterable[Promise]
) -> tuple[tuple[Check, ...], tuple[Finding, ...]]:
    host = backend.host()
    checks = tuple(_check(promise, host, expected) for promise in promises)
    try:
        seen = observed(host)
    except (HermesError, UnseenError, ValueError, TypeError, AttributeError, CommandTooSlowError):
        return checks, ()
    return checks, diagnose(seen, expected)


def _check(promise: Promise, host: Host, expected: Expected) -> Check:
    try:
        return Check(promise.name, Verdict.OK, promise.look(host, expected))
    except BrokenPromiseError as broken:
        return Check(promise.name, Verdict.FAILED, str(broken), promise.hint)
    except HermesError as error:
        return Check(promise.name, Verdict.UNKNOWN, error.message, error.hint)
    except CommandTooSlowError as error:
        return Check(promise.name, Verdict.UNKNOWN, f"{error} did not end in time", promise.hint)
    except UnseenError as error:
        return Check(promise.name, Verdict.UNKNOWN, f"could not look: {error}", promise.hint)
    except _UNREADABLE as error:
        return Check(promise.name, Verdict.UNKNOWN, _short(error), promise.hint)


def _short(error: Exception) -> str:
    # testinfra's assertions end with all that it knows of the command, its output included.
    said = str(error).partition(" for CommandResult(")[0].strip().splitlines()
    return f"could not look: {said[0][:200] if said else type(error).__name__}"
