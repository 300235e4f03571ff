"""What was checked and what was seen; and records of ours that contradict one another."""

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a check concluded. ``unknown``: it could not look, which is neither good nor bad."""

    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Check:
    """A check that was made.

    Attributes:
        name: Short and stable; programs tell checks apart by it.
        seen: What was observed, in a few words.
        hint: What to do about it; empty when it is ok.
    """

    name: str
    verdict: Verdict
    seen: str
    hint: str = ""


@dataclass(frozen=True)
class Contradiction:
    """One of them.

    Attributes:
        subject: What it is about, as ``instance/<id>``, ``operation/<id>``, ``lease/<subject>``, ``audit/<entry>``.
        what: What contradicts what, in one line without secrets.
        hint: What to do about it.
    """

    subject: str
    what: str
    hint: str
