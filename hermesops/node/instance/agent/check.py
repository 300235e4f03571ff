"""One judgement about the agent on a machine. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One judgement. ``name`` is stable: alerts and runbooks refer to it."""

    name: str
    ok: bool
    detail: str = ""
