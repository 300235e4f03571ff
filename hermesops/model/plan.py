"""Plans that users buy, and their sizes."""

from enum import StrEnum

GB = 10**9
"""Bytes of what plans are counted in, as the vendor counts disks."""


class Plan(StrEnum):
    """The two plans. Server types are the vendor's and never called plans."""

    LIGHT = "light"
    HEAVY = "heavy"
