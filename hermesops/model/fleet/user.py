"""Helium users, and how operators name them."""

from dataclasses import dataclass

from hermesops.errors import UsageError
from hermesops.model.ids import UserId, is_alias, user_id_from_alias, user_id_of

DRILLS = "drill-"
"""The beginning of aliases that are drills' own: what a drill breaks is never a user's."""

_SHOWN = 80
"""Most characters of a wrong text that an error repeats."""


@dataclass(frozen=True)
class User:
    """A row of ``users``.

    Attributes:
        alias: The operators' name of the user; empty when only the id is known.
    """

    id: UserId
    alias: str = ""

    @property
    def title(self) -> str:
        """Name of the user for display: the alias if set, else the id."""
        return self.alias or self.id


def is_of_drill(user: User) -> bool:
    """Whether a user is none, but stands for a drill."""
    return user.alias.startswith(DRILLS)


def parse_user(text: str) -> User:
    """The user that an operator typed: an id or an alias.

    Raises:
        UsageError: It is neither.
    """
    user_id = user_id_of(text)
    if user_id:
        return User(user_id)
    if is_alias(text):
        return User(user_id_from_alias(text), text)
    raise UsageError(
        f"{text[:_SHOWN]!r} is neither a user id (a UUID) nor an alias "
        "(a lower-case letter, then up to 30 of a-z, 0-9 and -)"
    )
