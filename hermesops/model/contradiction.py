"""Something in our own records that cannot be true together with the rest of them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Contradiction:
    """One of them.

    Attributes:
        subject: What it is about, as ``instance/<id>``, ``operation/<id>``, ``lease/<subject>``, ``audit/<entry>``.
        what: What contradicts what, in one line without secrets.
        hint: What to do about it.
    """

    subject: str
    what: str
    hint: str
