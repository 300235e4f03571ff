"""Whose agent it is: a Helium user, and how operators call them."""

from dataclasses import dataclass

from hermesops.model.ids import UserId


@dataclass(frozen=True)
class User:
    """A row of ``users``.

    Attributes:
        alias: How operators call the user; empty when only the id is known.
    """

    id: UserId
    alias: str = ""

    @property
    def title(self) -> str:
        """What an operator reads: the alias, else the id."""
        return self.alias or self.id
