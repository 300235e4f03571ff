"""Pages of a long list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermesops.errors import UsageError

_MOST = 100
"""Rows of a page."""

_DIGITS = 6
"""Of the number of a page."""


@dataclass(frozen=True)
class Page:
    """One page of a list.

    Attributes:
        number: From 1.
        count: Rows of the whole list.
    """

    rows: Sequence[Mapping[str, Any]]
    number: int
    pages: int
    count: int


def page_of(rows: Sequence[Mapping[str, Any]], text: str) -> Page:
    """The page of a number in an address; the last one for a larger number.

    Raises:
        UsageError: It is no number from 1 on.
    """
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS or int(text) < 1:
        raise UsageError("a page has a number from 1 on", field="page")
    pages = max(1, -(-len(rows) // _MOST))
    number = min(int(text), pages)
    return Page(rows[(number - 1) * _MOST : number * _MOST], number, pages, len(rows))
