"""What a trial of a release is, and what came of it. Pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermesops.node.instance.agent.check import Check
from hermesops.node.system.as_user import AgentHome

COPY = Path("/run/hermes-node/trial-state")
"""Where the copy of the state is mounted while it is tried: below folders that are root's alone."""

RollbackMethod = Literal["in_place", "copy"]
"""How a machine gets back to the release before: on the state as it is, or on the copy from the moment of the stop."""


@dataclass(frozen=True)
class Side:
    """One release as it would run.

    Attributes:
        slot: Where it is.
        unit: Its ``hermes-gateway.service``.
        config: Managed configuration: no messengers, no MCP servers.
        environment: Managed environment, without anything of the user's.
    """

    slot: Path
    unit: str
    config: bytes
    environment: bytes


@dataclass(frozen=True)
class Trial:
    """A release to be tried on a copy of a state.

    Attributes:
        home: The agent's, which is only read.
        port: Where the tried gateway listens.
        key: Bearer of its API.
        takes_turns: Whether there is a model for it.
        new: The release that is tried.
        old: The one that must still run on what the new one made of the copy; ``None`` where there is none.
        migrates: Whether the new one has to migrate the user's configuration to a newer schema first.
    """

    home: AgentHome
    port: int
    key: str
    takes_turns: bool
    new: Side
    old: Side | None
    migrates: bool = False


@dataclass(frozen=True)
class Tried:
    """What came of it.

    Attributes:
        checks: Of the new release.
        rollback_method: How the old one could be returned to.
        why: Why not in place, or why the trial went as it did.
        seconds: Each part took.
    """

    checks: tuple[Check, ...]
    rollback_method: RollbackMethod = "in_place"
    why: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the release."""
        return all(check.ok for check in self.checks)
