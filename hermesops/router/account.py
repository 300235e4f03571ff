"""What a model router knows of one instance. Pure: the registry imports it, too."""

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Spent:
    """What an instance used of models.

    Attributes:
        micros: Millionths of a US dollar.
    """

    tokens: int = 0
    micros: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(self.tokens + other.tokens, self.micros + other.micros)


NOTHING: Final = Spent()


@dataclass(frozen=True)
class Account:
    """One instance, as the registry has it.

    Attributes:
        floor: The oldest generation of its tokens that counts.
        budget: What it may use in a month; ``None`` in either place for no limit.
        spent: What it used this month, of which the registry knows.
        address: Of its machine; empty where that is not known.
        plan: What its user bought; empty where that is not known.
    """

    floor: int
    budget_tokens: int | None = None
    budget_micros: int | None = None
    spent: Spent = NOTHING
    address: str = ""
    plan: str = ""
