"""Which schedules hermes-agent takes for a cron job, so that a bad one is refused before anything is touched.

Pure.

Source: ``parse_schedule`` and ``parse_duration`` in ``cron/jobs.py`` of hermes-agent 0.19.0.
"""

import re
from datetime import datetime

_DURATION = re.compile(r"\d{1,6}\s*(m|min|mins|minute|minutes|h|hr|hrs|hour|hours|d|day|days)", re.IGNORECASE)
_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/([1-9]\d?))?", re.ASCII)
_RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
"""Minute, hour, day of month, month, day of week."""


def is_schedule(text: str) -> bool:
    """Whether it is five fields of cron, ``every 2h``, a delay as ``30m``, or a moment in ISO 8601."""
    words = text.split()
    if len(words) == len(_RANGES):
        return all(_is_field(word, *bounds) for word, bounds in zip(words, _RANGES, strict=True))
    duration = text.strip()[len("every ") :].strip() if text.strip().lower().startswith("every ") else text.strip()
    return _DURATION.fullmatch(duration) is not None or _is_moment(text.strip())


def _is_field(word: str, low: int, high: int) -> bool:
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            return False
        first, last = match[1], match[2] or match[1]
        if first is not None and not low <= int(first) <= int(last) <= high:
            return False
    return True


def _is_moment(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return "-" in text
