"""Results of checks, and records that contradict each other."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hermesops.errors import Hint

CheckRun = Callable[[], Coroutine[Any, Any, str]]
"""Checks one thing; returns what it saw in a few words, or raises why it failed."""


class Verdict(StrEnum):
    """A check's result. ``warning``: the promise holds, and somebody should look. ``unknown``: it was not made."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def holds(self) -> bool:
        """Whether the checked promise holds, with or without a warning."""
        return self in {Verdict.OK, Verdict.WARNING}


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: Short and stable, for programs.
        seen: The observation, in a few words.
        hint: What to do; empty when it is ok.
    """

    name: str
    verdict: Verdict
    seen: str
    hint: Hint = field(default_factory=Hint)


@dataclass(frozen=True)
class Contradiction:
    """Records that cannot be true together.

    Attributes:
        subject: What it is about, as ``instance/<id>``, ``operation/<id>``, ``lease/<subject>``, ``audit/<entry>``.
        what: The contradiction, in one line without secrets.
    """

    subject: str
    what: str
    hint: Hint
