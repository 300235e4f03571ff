"""A user's conversations, from the rows of turns and the agent's own list. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hermesops.store.user_rows.turns import ConversationRow
from hermesops.users.chat.agent_runs import Conversation as Listed


@dataclass(frozen=True)
class Conversation:
    """A conversation of a user.

    Attributes:
        open_turn: Id of the turn that has not ended; ``None`` for none.
    """

    name: str
    title: str = field(repr=False)
    last_at: datetime
    open_turn: str | None


def together(rows: Sequence[ConversationRow], listed: Mapping[str, Listed]) -> tuple[Conversation, ...]:
    """A user's conversations, the last used one first, from the rows of turns and the agent's own list. Pure."""
    both = {row.name: Conversation(row.name, "", row.last_at, row.open_turn) for row in rows}
    for name, each in listed.items():
        row = both.get(name)
        last_at = max((at for at in (row and row.last_at, each.last_at) if at), default=None)
        if last_at is not None:
            both[name] = Conversation(name, each.title, last_at, row.open_turn if row else None)
    return tuple(sorted(both.values(), key=lambda each: each.last_at, reverse=True))
