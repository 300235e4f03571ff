"""Who changed what, and why."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class AuditEntry:
    """A row of ``audit``, which is only ever appended to.

    Attributes:
        id: Rises; the order of entries.
        who: The operator, pipeline or program that acted.
        action: Past tense, as ``status_changed``.
        subject: What was acted on, as ``instance/<id>``.
        why: The reason a person gave, or the operation's kind and id.
        before: What was changed, as it was; empty for what is new. No secrets, no users' words.
        after: The same, as it is now.
    """

    id: int
    at: datetime
    who: str
    action: str
    subject: str
    why: str
    before: Mapping[str, object]
    after: Mapping[str, object]
