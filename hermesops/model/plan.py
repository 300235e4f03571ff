"""What a user bought."""

from enum import StrEnum

GB = 10**9
"""Bytes of what plans are counted in, as the vendor counts disks."""


class Plan(StrEnum):
    """The two plans. Server types are the vendor's and never called plans."""

    LIGHT = "light"
    HEAVY = "heavy"

    @property
    def data_gib(self) -> int:
        """Size of the data volume in GiB (seed, layer L2: 40 GB and 80 GB)."""
        match self:
            case Plan.LIGHT:
                return 40
            case Plan.HEAVY:
                return 80
