"""Where the monitor's facts come from, and whether each answers; that one does not is said once."""

import asyncio
from collections.abc import Mapping
from enum import StrEnum

import structlog

_log = structlog.get_logger(__name__)


class Source(StrEnum):
    """A service that the monitor asks."""

    PROMETHEUS = "prometheus"
    JUSTAVPS = "justavps"
    REGISTRY = "registry"
    TOOLBOX = "toolbox"
    PROXY = "proxy"


class Sources:
    """Records for each source whether it answers, and since when, by the event loop's clock."""

    def __init__(self) -> None:
        self._answers: dict[Source, bool] = {}
        self._since: dict[Source, float] = {}

    def up(self, source: Source) -> None:
        """Note that the source has answered."""
        if self._turned(source, answers=True) is False:
            _log.info("source_answers_again", source=source.value)

    def down(self, source: Source, problem: str) -> None:
        """Note that the source has not answered."""
        if self._turned(source, answers=False) is not False:
            _log.warning("source_does_not_answer", source=source.value, problem=problem)

    def forget(self, source: Source) -> None:
        """Whether it answers is not known any more."""
        self._answers.pop(source, None)

    def answers_for_s(self, source: Source) -> float:
        """For how many seconds it has answered; 0 while it does not."""
        if not self._answers.get(source):
            return 0.0
        return asyncio.get_running_loop().time() - self._since[source]

    def all(self) -> Mapping[Source, bool]:
        """Those that were asked, and whether they answered."""
        return dict(self._answers)

    def _turned(self, source: Source, *, answers: bool) -> bool | None:
        """Write down whether one answers; whether it did before, ``None`` for the first time."""
        before = self._answers.get(source)
        if before is not answers:
            self._answers[source] = answers
            self._since[source] = asyncio.get_running_loop().time()
        return before
