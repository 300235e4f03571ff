"""An agent whose data come near to what its plan has room for."""

from dataclasses import dataclass

from hermesops.model.plan import Plan

SHARE = 0.8
"""Part of the room from which on somebody is told."""


@dataclass(frozen=True)
class LowOnDisk:
    """An agent that is low on disk.

    Attributes:
        user: What a person calls its user.
        bytes: Of its data, in its newest backup.
        size: Bytes that its plan has room for.
    """

    user: str
    plan: Plan
    bytes: int
    size: int
