"""The log of an instance: from its machine, which has all of it, or from monitoring, which outlives the machine."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from hermesops.errors import HermesError, UnavailableError, UsageError
from hermesops.model.instance import Instance
from hermesops.observability.telemetry.client import MonitoringClient, WrongQuestionError
from hermesops.observability.telemetry.loki import MOST_LINES, LogLine, Loki

ALL_UNITS = "all"

_UNIT = re.compile(r"[A-Za-z0-9@:._\\-]{1,128}")
_LONGEST_GREP = 1000
_READ = 100_000
"""Lines of a machine's log that are searched."""

_COMPARED = 8192
"""Characters of a line that a regular expression is tried on."""

_MACHINE_S = 60.0
"""Seconds for a machine's answer."""

_DEFAULT_SINCE = timedelta(hours=1)
"""How far back monitoring is searched where nothing was said."""


class LogSource(StrEnum):
    """Sources of log lines: the machine's journal, or Loki."""

    MACHINE = "machine"
    MONITORING = "monitoring"


@dataclass(frozen=True)
class LogQuestion:
    """Filters for log lines.

    Attributes:
        most: How many, the newest.
        since: ``None`` for as far back as ``most`` lines reach.
        grep: Only lines in which it is found; empty for all.
        unit: Of systemd, or ``ALL_UNITS``.
    """

    most: int
    unit: str
    since: datetime | None = None
    grep: str = ""

    def __post_init__(self) -> None:
        """Refuse a question that neither source can answer.

        Raises:
            UsageError: It is no unit, or no regular expression.
        """
        if not _UNIT.fullmatch(self.unit):
            raise UsageError("--unit: a name of a unit of systemd, or all")
        if len(self.grep) > _LONGEST_GREP:
            raise UsageError(f"--grep: {_LONGEST_GREP} characters at most")
        try:
            re.compile(self.grep)
        except re.error as error:
            raise UsageError(f"--grep is no regular expression: {error}") from None


@dataclass(frozen=True)
class InstanceLog:
    """The lines that were found, oldest first.

    Attributes:
        note: What has to be known of them, as that another source did not answer; empty for nothing.
    """

    source: LogSource
    lines: tuple[str, ...]
    note: str = ""


class MachineLogs(Protocol):
    """Port to the journals of machines."""

    def log(
        self, instance: Instance, *, lines: int, follow: bool, since: datetime | None = None, unit: str = ""
    ) -> AsyncGenerator[str, None]:
        """Yield lines of the machine's journal, the instance's own secrets masked."""

    def mask(self, instance: Instance) -> Callable[[str], str]:
        """Hides an instance's secrets in a line of text."""


@dataclass(frozen=True)
class InstanceLogs:
    """Reads the logs of instances.

    Attributes:
        client: ``None`` where the environment has no monitoring.
    """

    machines: MachineLogs
    client: MonitoringClient | None
    now: Callable[[], datetime]

    async def read(self, instance: Instance, question: LogQuestion, *, first: LogSource) -> InstanceLog:
        """The lines of the first source, or of the other one where that does not answer or has none.

        Raises:
            UsageError: Loki does not take the regular expression.
            HermesError: Neither answers; it is what the first one came to.
        """
        if self.client is None:
            return InstanceLog(LogSource.MACHINE, await self._of_machine(instance, question))
        order = sorted(LogSource, key=lambda attempt: attempt is not first)
        problems: list[HermesError] = []
        empty: InstanceLog | None = None
        for source in order:
            try:
                lines, missing = await self._of(source, instance, question)
            except WrongQuestionError as error:
                raise UsageError(f"--grep: {error.message}") from error
            except HermesError as error:
                problems.append(error)
                continue
            note = _note(source, first, problems, question, missing=missing)
            if lines:
                return InstanceLog(source, lines, note)
            empty = empty or InstanceLog(source, (), note)
        if empty is None:
            raise problems[0]
        return empty

    async def _of(self, source: LogSource, instance: Instance, question: LogQuestion) -> tuple[tuple[str, ...], str]:
        """The lines, and why some may be missing."""
        if source is LogSource.MACHINE:
            return await self._of_machine(instance, question), ""
        return await self._of_monitoring(instance, question)

    async def _of_machine(self, instance: Instance, question: LogQuestion) -> tuple[str, ...]:
        is_all = not (question.grep or question.since)
        unit = "" if question.unit == ALL_UNITS else question.unit
        matching: deque[str] = deque(maxlen=question.most)
        read = self.machines.log(
            instance, lines=question.most if is_all else _READ, follow=False, since=question.since, unit=unit
        )
        try:
            async with asyncio.timeout(_MACHINE_S) as limit, aclosing(read) as lines:
                async for line in lines:
                    if not question.grep or re.search(question.grep, line[:_COMPARED]):
                        matching.append(line)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise UnavailableError(f"the log of {instance.title} was not whole after {_MACHINE_S:g} s") from error
        return tuple(matching)

    async def _of_monitoring(self, instance: Instance, question: LogQuestion) -> tuple[tuple[str, ...], str]:
        if self.client is None:
            raise UnavailableError("the environment has no monitoring")
        now, mask = self.now(), self.machines.mask(instance)
        found = await Loki(self.client).lines(
            instance.id,
            begin=question.since or now - _DEFAULT_SINCE,
            end=now + timedelta(minutes=1),  # a machine's clock may be ahead
            unit="" if question.unit == ALL_UNITS else question.unit,
            grep=question.grep,
            most=question.most,
        )
        return tuple(mask(_shown(line)) for line in found.lines), found.missing


def _shown(line: LogLine) -> str:
    """A line as ``journalctl -o short-iso`` begins it."""
    return f"{line.at:%Y-%m-%dT%H:%M:%S%z} {line.unit or '-'}: {line.text}"


def _note(
    source: LogSource, first: LogSource, problems: list[HermesError], question: LogQuestion, *, missing: str
) -> str:
    words = []
    if source is not first:
        words.append(problems[0].message if problems else "the platform's monitoring has no such line")
    if source is LogSource.MONITORING:
        words.append("of a gateway only level and category of each line leave its machine")
        if missing:
            words.append(f"lines may be missing, as monitoring answers in part only: {missing}")
        if question.most > MOST_LINES:
            words.append(f"monitoring gives {MOST_LINES} lines at most")
    return "; ".join(words)
