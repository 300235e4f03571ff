"""Pages of a long list."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermesops.errors import UsageError

MOST = 100
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


def number_of(text: str) -> int:
    """The number of a page in an address.

    Raises:
        UsageError: It is no number from 1 on.
    """
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS or int(text) < 1:
        raise UsageError("the page number must be 1 or more", field="page")
    return int(text)


def page_of(rows: Sequence[Mapping[str, Any]], text: str) -> Page:
    """The page of a number in an address; the last one for a larger number. Raises as ``number_of``."""
    number, pages = number_of(text), pages_of(len(rows))
    number = min(number, pages)
    return Page(rows[(number - 1) * MOST : number * MOST], number, pages, len(rows))


def pages_of(count: int) -> int:
    """How many pages a list has; one for an empty list."""
    return max(1, -(-count // MOST))
