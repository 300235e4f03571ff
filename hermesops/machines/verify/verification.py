"""Verifies a machine, in one round trip or one by one as testinfra would, and recognises known failures."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from testinfra.host import Host

from hermesops.base.narration import Reporter, counted
from hermesops.base.waiting import cancel
from hermesops.errors import HermesError, Hint
from hermesops.machines.verify.backend import (
    Answer,
    ChannelBackend,
    CommandTooSlowError,
    answers_of,
    command_of,
    commands_of,
)
from hermesops.machines.verify.causes import causes_of
from hermesops.machines.verify.checks.agent import AGENT_PROMISES
from hermesops.machines.verify.checks.machine import MACHINE_PROMISES
from hermesops.machines.verify.checks.promise import BrokenPromiseError, Expected, Promise, UnseenError, WorthALookError
from hermesops.machines.verify.failure_catalog import Finding, diagnose
from hermesops.machines.verify.observations import Observations, observed, observer_command
from hermesops.model.check import Check, Verdict
from hermesops.model.fleet.instance import Instance
from hermesops.vendor.channel import Channel, Completed

WITHOUT_USER = MACHINE_PROMISES
"""Checks of a machine without an instance, as one from a new image."""

PROMISES = (*WITHOUT_USER, *AGENT_PROMISES)

_NO_ANSWER = Hint(("runbook", "show", "break-glass"), "if its toolbox is cut")

_QUICK_S = 20.0
_SLOW_S = 75.0
_SHORT_S = 10.0

_UNREADABLE = (AssertionError, AttributeError, LookupError, RuntimeError, StopIteration, TypeError, ValueError)
"""What testinfra and our own reading raise when a command prints something else than either knows."""


@dataclass(frozen=True)
class Verification:
    """The result for one machine.

    Attributes:
        findings: The known failures that explain failed checks.
        observations: The observer's observations; ``None`` if they could not be read.
    """

    checks: tuple[Check, ...]
    findings: tuple[Finding, ...]
    round_trips: int
    observations: Observations | None = None

    @property
    def is_ok(self) -> bool:
        """Whether every promise holds, warnings or not, and no failure was recognised."""
        return not self.findings and all(check.verdict.holds for check in self.checks)

    def for_user(self, user: str) -> tuple[Check, ...]:
        """Findings first, then all checks, with commands that name the user; a failure that follows has none."""
        named = (Check(f"diagnosis:{f.failure}", Verdict.FAILED, f.seen, f.hint) for f in self.findings)
        every = (*named, *self.checks)
        if self.observations is not None:
            every = causes_of(self.checks, self.findings, self.observations).attribute(every)
        return tuple(Check(check.name, check.verdict, check.seen, check.hint.put(USER=user)) for check in every)


async def verify(channel: Channel, expected: Expected, promises: Sequence[Promise] = PROMISES) -> Verification:
    """Check all promises of a machine in one round trip, plus one for each command that was not foreseen.

    A machine that does not answer has one check instead, which is ``unknown``; nothing is raised. Commands run as root
    and change nothing.
    """
    # The observer runs in any case: known failures are recognised by it.
    commands = tuple(dict.fromkeys((*commands_of(promises, expected), observer_command())))
    limit_s = _SLOW_S if any(promise.slow for promise in promises) else _QUICK_S
    try:
        completed = await _answer(channel, command_of(commands, limit_s=limit_s), limit_s + 10)
        answers = answers_of(commands, completed)
    except HermesError as error:
        hint = Hint(error.hint, ";", _NO_ANSWER)
        return Verification((Check("answers", Verdict.UNKNOWN, error.message, hint),), (), 1)
    verification = await _judged(channel, expected, promises, answers)
    return replace(verification, round_trips=verification.round_trips + 1)


async def verify_instance(channel: Channel, instance: Instance, *, api_server_key: str) -> Verification:
    """Run all checks on an instance's machine, as ``verify``."""
    return await verify(channel, Expected.of(instance, api_server_key=api_server_key))


async def verify_without_user(channel: Channel, report: Reporter) -> tuple[str, ...]:
    """Run the checks of a machine without an instance; the failed ones, a line each."""
    verification = await verify(channel, Expected(""), WITHOUT_USER)
    failed = [check for check in verification.for_user("") if not check.verdict.holds]
    checks = counted(len(verification.checks), "check")
    report(f"{len(failed)} of {checks} failed" if failed else f"{checks} passed")
    return tuple(f"{check.name}: {check.seen}" for check in failed)


async def _answer(channel: Channel, line: str, within_s: float) -> Completed:
    """Run the batch; one that takes long is waited for only while the machine answers a short command."""
    batch = asyncio.ensure_future(channel.run(line, timeout_s=within_s))
    try:
        done, _ = await asyncio.wait({batch}, timeout=_QUICK_S)
        if not done:
            await channel.run("true", timeout_s=_SHORT_S)
        return await batch
    finally:
        await cancel(batch)


async def _judged(
    channel: Channel, expected: Expected, promises: Sequence[Promise], answers: Mapping[str, Answer]
) -> Verification:
    """Judge in a thread, as testinfra blocks; commands without an answer are run one by one."""
    loop = asyncio.get_running_loop()

    def run(command: str) -> Completed:
        return asyncio.run_coroutine_threadsafe(channel.run(command, timeout_s=_SLOW_S), loop).result()

    backend = ChannelBackend(channel.machine_id, run, answers)
    checks, observations = await asyncio.to_thread(_judge, backend, expected, promises)
    return Verification(
        checks, diagnose(observations, expected) if observations else (), len(backend.direct), observations
    )


def _judge(
    backend: ChannelBackend, expected: Expected, promises: Iterable[Promise]
) -> tuple[tuple[Check, ...], Observations | None]:
    host = backend.host()
    checks = tuple(_check(promise, host, expected) for promise in promises)
    try:
        return checks, observed(host)
    except (HermesError, UnseenError, ValueError, TypeError, AttributeError, CommandTooSlowError):
        return checks, None


def _check(promise: Promise, host: Host, expected: Expected) -> Check:
    try:
        return Check(promise.name, Verdict.OK, promise.observe(host, expected))
    except BrokenPromiseError as broken:
        return Check(promise.name, Verdict.FAILED, str(broken), promise.hint)
    except WorthALookError as strange:
        return Check(promise.name, Verdict.WARNING, str(strange), promise.hint)
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
    lines = str(error).partition(" for CommandResult(")[0].strip().splitlines()
    return f"could not look: {lines[0][:200] if lines else type(error).__name__}"
