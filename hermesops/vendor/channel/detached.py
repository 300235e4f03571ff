"""Commands that outlive the requests that start them and ask for them.

The vendor's edge cuts a request that is silent for some 100 seconds, and the command's outcome is lost. So a command
that may take long runs in a systemd scope, independent of the daemon and any connection, with its output in a folder of
root's; requests wait for its end, each for a short time. The result of a command that ends soon is in the answer to its
start, so it costs one round trip like any other.

Source:
    The vendor's public client starts long work with systemd-run and asks every 5 s, 2026; Cloudflare's 524.
"""

import asyncio
import base64
import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from hermesops.base.waiting import Pending, pause, until
from hermesops.errors import HermesError, RefusedError
from hermesops.vendor.channel import detached_scripts as scripts
from hermesops.vendor.channel.errors import (
    AnswerLostError,
    CommandExpiredError,
    MachineUnreachableError,
    NoSuchFileError,
    look_at,
    translated,
)
from hermesops.vendor.channel.interface import Completed
from hermesops.vendor.justavps.toolbox import Execution, Toolbox

_INLINE = 1 << 20
"""Bytes of output that fit into the answer with the result."""

_BEYOND_S = 15
"""Seconds that a request may take on the machine beyond its wait."""

_OVERDUE_S = 60.0
"""Seconds beyond its limit for which a command that seems to run is waited for; the machine kills it at the limit."""

_STARTS = 3
"""How often a command is started before its last refusal is told.

A scope's job is cancelled now and then while systemd reloads, of which ``systemd-run --quiet`` says nothing
(``src/run/run.c`` of systemd 252); while it executes itself anew, its bus does not answer. In both cases the command
never began, so it is safe to start it again: one of 40 in a loop of ``systemctl daemon-reload``, measured 2026.
"""

_ENDED = frozenset({scripts.DONE, scripts.UNSTARTED})
_BEGUN = frozenset({scripts.DONE, scripts.RUNNING, scripts.EXPIRED, scripts.BROKEN})
_REPEATED = (MachineUnreachableError, AnswerLostError, CommandExpiredError)
"""Errors after which a request is repeated; the last means that the machine was too slow to answer it."""


@dataclass(frozen=True)
class Pace:
    """Limits of silence of requests, in seconds.

    Attributes:
        direct_s: Longest time limit of a command that runs within its request.
        answer_s: Time after which a request for a longer command answers that it still runs.
        every_s: Time between two requests.
        silence_s: Time without an answer of the machine after which the outcome is unknown.
    """

    direct_s: float = 60.0
    answer_s: float = 25.0
    every_s: float = 0.5
    silence_s: float = 180.0


@dataclass(frozen=True)
class CommandStatus:
    """The status of a command, as the machine reports it.

    Attributes:
        state: As the scripts print it.
        output: Standard output and error, where they fit into an answer.
        age_s: Seconds since the machine booted, where the command never began.
    """

    state: str
    exit_code: int = 0
    output: tuple[bytes, bytes] | None = field(default=None, repr=False)
    age_s: int = 0


def told_by(answer: str) -> CommandStatus:
    """Parse the output of a script. Pure; other output has the state ``""``."""
    head, *lines = answer.split("\n")
    state, *words = head.split()[:3] or [""]
    try:
        if state == scripts.DONE:
            inline = words[1:] == ["inline"]
            return CommandStatus(state, int(words[0]), _decoded(lines) if inline else None)
        if state == scripts.UNSTARTED:
            return CommandStatus(state, 126, (b"", base64.b64decode(lines[0])))
        if state == scripts.NEVER:
            return CommandStatus(state, age_s=int(words[0]))
    except (IndexError, ValueError):
        return CommandStatus("")
    return CommandStatus(state if state in scripts.STATES else "")


def _decoded(lines: list[str]) -> tuple[bytes, bytes]:
    return base64.b64decode(lines[0], validate=True), base64.b64decode(lines[1], validate=True)


class DetachedCommand:
    """One command on one machine, as root; ``run`` may be called once."""

    def __init__(self, toolbox: Toolbox, machine_id: str, pace: Pace) -> None:
        self._toolbox = toolbox
        self._id = machine_id
        self._pace = pace
        self._folder = ""
        self._asked_at = self._answered_at = 0.0
        self._is_begun = False
        self._limit_s = 0

    async def run(self, command: str, *, limit_s: float, cwd: str, env: Mapping[str, str]) -> Completed:
        """Start it, wait for its end and delete its files; it is killed when this is cancelled.

        Raises:
            MachineUnreachableError: It never began.
            CommandExpiredError: It reached its limit and was killed with all that it had started.
            AnswerLostError: It began, and its end is unknown: the machine rebooted, or stopped answering.
        """
        self._limit_s = math.ceil(limit_s)
        for _ in range(_STARTS - 1):
            ended = await self._once(command, cwd=cwd, env=env)
            if isinstance(ended, Completed):
                return ended
            await pause(self._pace.every_s)
        ended = await self._once(command, cwd=cwd, env=env)
        return ended if isinstance(ended, Completed) else self._refused(ended)

    async def _once(self, command: str, *, cwd: str, env: Mapping[str, str]) -> Completed | CommandStatus:
        """Run it in a folder of its own, to its end; the status is that of a command that never began."""
        self._folder = f"{scripts.FOLDER}/hermesops-run-{uuid4().hex}"
        self._asked_at = self._answered_at = time.monotonic()
        limits = (str(self._limit_s), f"{self._pace.answer_s:g}", str(_INLINE))
        start = scripts.start(self._folder, command, *limits)
        try:
            first = await self._started(start, cwd, env)
            if isinstance(first, Completed):
                return first
            status = first if first.state in _ENDED else await self._ended()
            if status.state == scripts.UNSTARTED:
                return status
            completed = Completed(status.exit_code, *(status.output or await self._fetched()))
        except (MachineUnreachableError, RefusedError):
            raise  # nothing began, or nothing can be stopped
        except BaseException:
            await asyncio.shield(self._stop())
            raise
        # The machine itself deletes the files of a result that came at once: its answer may have to be repeated, and
        # short commands, which are many, stay one round trip.
        if status is not first or status.output is None:
            await self._stop()
        return completed

    async def _started(self, start: str, cwd: str, env: Mapping[str, str]) -> CommandStatus | Completed:
        try:
            with translated(self._id, "starting a command"):
                result = await self._toolbox.execute(self._id, self._request(start, cwd=cwd, env=env))
        except (AnswerLostError, CommandExpiredError):
            return CommandStatus("")  # it may have begun; the next request shows it
        status = told_by(result.stdout)
        if not status.state and result.exit_code:
            return Completed(result.exit_code, result.stdout.encode(), result.stderr.encode())
        self._answered_at = time.monotonic()
        self._is_begun = status.state in _BEGUN
        return status

    async def _ended(self) -> CommandStatus:
        async def observe() -> CommandStatus | Pending[CommandStatus]:
            return self._concluded(await self._observe())

        return await until(observe, what="a command to end", timeout_s=math.inf, every_s=self._pace.every_s)

    async def _observe(self) -> CommandStatus:
        observe = scripts.observe(self._folder, f"{self._pace.answer_s:g}", str(_INLINE))
        status = CommandStatus("")
        with suppress(*_REPEATED), translated(self._id, "waiting for a command"):
            status = told_by((await self._toolbox.execute(self._id, self._request(observe))).stdout)
        if status.state:
            self._answered_at = time.monotonic()
        elif time.monotonic() - self._answered_at > self._pace.silence_s:
            raise self._unknown(f"no answer about a command for {self._pace.silence_s:g} s")
        return status

    def _concluded(self, status: CommandStatus) -> CommandStatus | Pending[CommandStatus]:
        """Return the status of an ended command, or ``Pending`` if it still runs."""
        ran_s = time.monotonic() - self._asked_at
        match status.state:
            case scripts.DONE | scripts.UNSTARTED:
                return status
            case scripts.EXPIRED:
                raise CommandExpiredError(
                    f"machine {self._id}: the command reached its time limit of {self._limit_s} s"
                )
            case scripts.BROKEN:
                raise self._unknown("the command was killed from outside")
            case scripts.NEVER if self._is_begun or status.age_s <= ran_s + 1:
                raise self._unknown("the machine rebooted while the command ran")
            case scripts.NEVER:
                raise MachineUnreachableError(f"machine {self._id}: the command never reached the machine")
            case scripts.RUNNING:
                self._is_begun = True
        if ran_s > self._limit_s + _OVERDUE_S:
            raise CommandExpiredError(f"machine {self._id}: the command exceeded its time limit of {self._limit_s} s")
        return Pending("it runs")

    def _refused(self, status: CommandStatus) -> Completed:
        """Return the result of a command that systemd never started."""
        words = status.output[1] if status.output else b""
        if words:
            return Completed(status.exit_code, b"", words)
        what = f"machine {self._id}: systemd dropped a command {_STARTS} times before its start, without a reason"
        raise MachineUnreachableError(what, hint=look_at(self._id))

    async def _fetched(self) -> tuple[bytes, bytes]:
        with translated(self._id, "reading output", missing=NoSuchFileError):
            out = await self._toolbox.download(self._id, f"{self._folder}/out")
            return out, await self._toolbox.download(self._id, f"{self._folder}/err")

    async def _stop(self) -> None:
        """Kill it if it runs, keep it from beginning, and delete its files."""
        with suppress(HermesError), translated(self._id, "ending a command"):
            await self._toolbox.execute(self._id, self._request(scripts.stop(self._folder)))

    def _request(self, script: str, *, cwd: str = "", env: Mapping[str, str] | None = None) -> Execution:
        return Execution(script, timeout_s=math.ceil(self._pace.answer_s) + _BEYOND_S, cwd=cwd, env=env or {})

    def _unknown(self, why: str) -> AnswerLostError:
        what = f"machine {self._id}: {why}; the command may be partly done"
        return AnswerLostError(what, hint=look_at(self._id))
