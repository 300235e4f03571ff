"""Rows of a list that contain a text."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def containing(rows: Sequence[Mapping[str, Any]], text: str) -> list[Mapping[str, Any]]:
    """The rows in which each word of a text occurs somewhere; all rows without words.

    Args:
        rows: Shapes.
        text: Words; capitals make no difference.
    """
    words = text.casefold().split()
    if not words:
        return list(rows)
    return [
        row for row in rows if _has(json.dumps(list(row.values()), default=str, ensure_ascii=False).casefold(), words)
    ]


def _has(content: str, words: Sequence[str]) -> bool:
    return all(word in content for word in words)
