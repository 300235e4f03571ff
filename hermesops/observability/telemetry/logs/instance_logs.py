"""The log of an instance: from its machine, which has all of it, or from monitoring, which outlives the machine."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from hermesops.base.narration import Reporter
from hermesops.errors import HermesError, Hint, Parameter, UnavailableError, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.observability.telemetry.client import MonitoringClient, WrongQuestionError
from hermesops.observability.telemetry.logs.following import follow, poll
from hermesops.observability.telemetry.logs.loki import MOST_LINES, LogLine, Loki

ALL_UNITS = "all"

_UNIT = re.compile(r"[A-Za-z0-9@:._\\-]{1,128}")
_LONGEST_GREP = 1000
_READ = 100_000
"""Lines of a machine's log that are searched."""

_COMPARED = 8192
"""Characters of a line that a regular expression is tried on."""

_MACHINE_S = 60.0
"""Seconds for a machine's answer."""

_POLL_S = 3.0
"""Seconds between two questions to Loki for new lines."""

_LATE_S = 30.0
"""Seconds by which a line may reach Loki later than a newer one."""

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
            raise UsageError("no name of a unit of systemd, nor all", field="unit")
        if len(self.grep) > _LONGEST_GREP:
            raise UsageError(f"more than {_LONGEST_GREP} characters", field="grep")
        try:
            re.compile(self.grep)
        except re.error as error:
            raise UsageError(f"no regular expression: {error}", field="grep") from None


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
        self, instance: Instance, *, lines: int | None, follow: bool, since: datetime | None = None, unit: str = ""
    ) -> AsyncGenerator[str, None]:
        """Yield lines of the machine's journal, the newest or all, the instance's own secrets masked."""

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
            return InstanceLog(LogSource.MACHINE, *await self._of_machine(instance, question))
        order = sorted(LogSource, key=lambda attempt: attempt is not first)
        problems: list[HermesError] = []
        empty: InstanceLog | None = None
        for source in order:
            try:
                lines, missing = await self._of(source, instance, question)
            except WrongQuestionError as error:
                raise UsageError(error.message, field="grep") from error
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

    async def follow(
        self, instance: Instance, question: LogQuestion, *, source: LogSource, report: Reporter
    ) -> AsyncGenerator[str, None]:
        """Yield the newest lines and then new ones, until the caller stops; a broken connection is made again.

        Args:
            report: Takes the narration about connections.

        Raises:
            UsageError: There is no monitoring, or Loki does not take the regular expression.
            HermesError: The source does not answer at first, or the machine is gone.
        """
        if source is LogSource.MONITORING and self.client is None:
            raise UsageError(
                "the environment has no monitoring",
                hint=Hint(Parameter("from", "machine"), "follows the machine's journal"),
            )
        of = self._followed_machine if source is LogSource.MACHINE else self._followed_monitoring
        async with aclosing(of(instance, question, report)) as lines:
            async for line in lines:
                yield line

    async def _followed_machine(
        self, instance: Instance, question: LogQuestion, report: Reporter
    ) -> AsyncGenerator[str, None]:
        unit = "" if question.unit == ALL_UNITS else question.unit

        def connect(most: int | None, since: datetime | None) -> AsyncGenerator[str, None]:
            return self.machines.log(instance, lines=most, follow=True, since=since, unit=unit)

        name = f"log of {instance.title}"
        followed = follow(connect, name=name, most=question.most, since=question.since, report=report)
        async with aclosing(followed) as lines:
            async for line in lines:
                if not question.grep or re.search(question.grep, line[:_COMPARED]):
                    yield line

    async def _followed_monitoring(
        self, instance: Instance, question: LogQuestion, report: Reporter
    ) -> AsyncGenerator[str, None]:
        reported = ""

        async def ask(begin: datetime, most: int) -> AsyncIterator[tuple[datetime, str]]:
            nonlocal reported
            lines, missing = await self._loki_lines(instance, replace(question, most=most), begin)
            if missing and missing != reported:
                reported = missing
                report(f"lines may be missing, as monitoring answers in part only: {missing}")
            for at, line in lines:
                yield at, line

        begin = question.since or self.now() - _DEFAULT_SINCE
        name, late = f"log of {instance.title} in monitoring", timedelta(seconds=_LATE_S)
        followed = poll(
            ask,
            name=name,
            begin=begin,
            first=question.most,
            most=MOST_LINES,
            every_s=_POLL_S,
            overlap=late,
            report=report,
        )
        try:
            async with aclosing(followed) as lines:
                async for line in lines:
                    yield line
        except WrongQuestionError as error:
            raise UsageError(error.message, field="grep") from error

    async def _of(self, source: LogSource, instance: Instance, question: LogQuestion) -> tuple[tuple[str, ...], str]:
        """The lines, and why some may be missing."""
        if source is LogSource.MACHINE:
            return await self._of_machine(instance, question)
        return await self._of_monitoring(instance, question)

    async def _of_machine(self, instance: Instance, question: LogQuestion) -> tuple[tuple[str, ...], str]:
        is_all = not (question.grep or question.since)
        unit = "" if question.unit == ALL_UNITS else question.unit
        matching: deque[str] = deque(maxlen=question.most)
        count = 0
        read = self.machines.log(
            instance, lines=question.most if is_all else _READ, follow=False, since=question.since, unit=unit
        )
        try:
            async with asyncio.timeout(_MACHINE_S) as limit, aclosing(read) as lines:
                async for line in lines:
                    count += 1
                    if not question.grep or re.search(question.grep, line[:_COMPARED]):
                        matching.append(line)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise UnavailableError(f"the log of {instance.title} was not whole after {_MACHINE_S:g} s") from error
        is_cut = not is_all and count >= _READ and len(matching) < question.most
        return tuple(matching), f"only the newest {_READ:,} lines were searched" if is_cut else ""

    async def _of_monitoring(self, instance: Instance, question: LogQuestion) -> tuple[tuple[str, ...], str]:
        begin = question.since or self.now() - _DEFAULT_SINCE
        lines, missing = await self._loki_lines(instance, question, begin)
        return tuple(line for _, line in lines), missing

    async def _loki_lines(
        self, instance: Instance, question: LogQuestion, begin: datetime
    ) -> tuple[list[tuple[datetime, str]], str]:
        """The lines with their times, and why some may be missing."""
        if self.client is None:
            raise UnavailableError("the environment has no monitoring")
        mask = self.machines.mask(instance)
        answer = await Loki(self.client).lines(
            instance.id,
            begin=begin,
            end=self.now() + timedelta(minutes=1),  # a machine's clock may be ahead
            unit="" if question.unit == ALL_UNITS else question.unit,
            grep=question.grep,
            most=question.most,
        )
        return [(line.at, mask(_shown(line))) for line in answer.lines], answer.missing


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
    elif missing:
        words.append(missing)
    return "; ".join(words)
