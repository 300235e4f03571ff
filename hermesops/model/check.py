"""One thing that was checked, and what was seen."""

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
