"""How an agent ends: at once or after days of grace, with or without a last backup. Pure."""

from dataclasses import dataclass
from datetime import timedelta

from hermesops.errors import Hint, Parameter, UsageError


@dataclass(frozen=True)
class Termination:
    """How one agent is to end.

    Attributes:
        at_once: Without days of grace, in which the termination can be cancelled.
        keeps_backup: Its last backup has to be made and proved before its machine is destroyed.
    """

    at_once: bool
    keeps_backup: bool


@dataclass(frozen=True)
class TerminationPolicy:
    """The environment's settings about the end of agents.

    Attributes:
        grace: For how long a termination can be cancelled; zero for not at all.
        requires_backup: Whether a last backup is made unless an operator refuses it.
    """

    grace: timedelta
    requires_backup: bool

    @property
    def days(self) -> float:
        """Days of grace between the request and the termination."""
        return self.grace / timedelta(days=1)

    def choose(self, *, now: bool, without_backup: bool) -> Termination:
        """How an agent ends by an operator's wish.

        Raises:
            UsageError: An agent with days of grace is to have no backup.
        """
        at_once = now or not self.grace
        if without_backup and not at_once:
            raise UsageError(
                "an agent with days of grace has a backup", hint=Hint("end it at once by", Parameter("now"))
            )
        return Termination(at_once, self.requires_backup and not without_backup)
