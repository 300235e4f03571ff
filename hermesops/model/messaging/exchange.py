"""What became of the messages that an agent got from its user since a moment: counts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Exchange:
    """Messages of a user to an agent, since a moment.

    Attributes:
        due: Those written to the agent's socket since then that were answered, ended without an answer, or have had
            time for one.
        answered: Those of them that were answered.
    """

    due: int
    answered: int
