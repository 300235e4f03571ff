"""Lines of logs out of the platform's Loki, where each instance is a tenant.

Of a gateway only level and category of each line leave the machine; its text stays there.

Source: Loki's HTTP API, ``/loki/api/v1/query_range``.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from hermesops.errors import Hint, UnavailableError
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.client import WITHIN_S, MonitoringClient, Question
from hermesops.observability.telemetry.metrics.prometheus_answer import missing_part

MOST_LINES = 5000
"""Lines of one answer; Loki gives no more by default."""

_LONGEST = 16 * 1024
"""Characters of a line that are kept."""

_WRONG = (ValueError, LookupError, TypeError, AttributeError, OverflowError)
"""What reading an answer of another shape raises."""


@dataclass(frozen=True)
class LogLine:
    """One line.

    Attributes:
        unit: Of systemd; ``kernel`` for the kernel's; empty where it is not known.
    """

    at: datetime
    unit: str
    text: str


@dataclass(frozen=True)
class FoundLines:
    """Lines of one answer, oldest first.

    Attributes:
        missing: Why lines may be missing, in Loki's words; empty for a whole answer.
    """

    lines: tuple[LogLine, ...]
    missing: str = ""


class Loki:
    """One Loki, behind the platform's monitoring."""

    def __init__(self, client: MonitoringClient) -> None:
        self._client = client

    async def lines(
        self,
        instance_id: InstanceId,
        *,
        begin: datetime,
        end: datetime,
        unit: str = "",
        grep: str = "",
        most: int = MOST_LINES,
        within_s: float = WITHIN_S,
    ) -> FoundLines:
        """The newest lines of an instance's machine over a stretch of time, oldest first.

        Args:
            unit: Only of this unit of systemd; empty for all.
            grep: Only lines in which this regular expression (RE2) is found.
            most: How many, ``MOST_LINES`` at most.

        Raises:
            WrongQuestionError: The regular expression is none.
            RefusedError: Loki does not answer us.
            UnavailableError: It does not answer, or with no lines.
        """
        # JSON's escapes are among those of LogQL's strings.
        of = f"unit={json.dumps(unit)}" if unit else 'unit=~".+"'
        matching = f" |~ {json.dumps(grep)}" if grep else ""
        params = (
            ("query", f"{{{of}}}{matching}"),
            ("start", _nanoseconds(begin)),
            ("end", _nanoseconds(end)),
            ("limit", str(min(most, MOST_LINES))),
            ("direction", "backward"),
        )
        headers = {"X-Scope-OrgID": instance_id}
        question = Question("/loki/api/v1/query_range", params, headers=headers, within_s=within_s)
        answer = await self._client.ask(question)
        try:
            lines = list(islice(_lines(answer["data"]), MOST_LINES + 1))
            if len(lines) > MOST_LINES:
                raise ValueError("more lines than were asked for")
        except _WRONG as error:
            raise UnavailableError(
                f"Loki answers with something else than lines ({type(error).__name__})",
                hint=Hint(("settings", "show"), "names monitoring.url"),
            ) from error
        newest = tuple(sorted(lines, key=lambda line: line.at))[-most:]
        return FoundLines(newest, missing_part(answer))


def _lines(data: Any) -> Iterator[LogLine]:  # noqa: ANN401 - JSON has no narrower type
    if data["resultType"] != "streams":
        raise ValueError("no streams")
    for stream in data["result"]:
        unit = str(stream["stream"].get("unit", ""))[:_LONGEST]
        for at, text, *_ in stream["values"]:
            if not isinstance(text, str):
                raise TypeError("a line that is no text")
            yield LogLine(_timestamp(at), unit, text[:_LONGEST])


def _timestamp(nanoseconds: str) -> datetime:
    seconds, rest = divmod(int(nanoseconds), 1_000_000_000)
    return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=rest // 1000)


def _nanoseconds(at: datetime) -> str:
    seconds = int(at.timestamp())
    return str(seconds * 1_000_000_000 + at.microsecond * 1000)
