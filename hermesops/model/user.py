"""Whose agent it is: a Helium user, and how operators call them."""

from dataclasses import dataclass

from hermesops.errors import UsageError
from hermesops.model.ids import UserId, is_alias, user_id_from_alias, user_id_of

_SHOWN = 80
"""Characters of something unusable that an error repeats."""


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


def parse_user(text: str) -> User:
    """The user meant by what an operator typed: an id, or an alias that stands for one.

    Raises:
        UsageError: It can be neither.
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
