"""Use of models by instances: the registry keeps it, and the model router counts it against a budget. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from hermesops.model.ids import InstanceId


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


@dataclass(frozen=True)
class Usage:
    """Answers of one kind on one day.

    Attributes:
        model: The route that was asked for; empty where it was none.
        provider: Who answered; empty for the router itself.
        outcome: The HTTP status, as text; ``cut`` for a stream that its reader left.
        micros: Millionths of a US dollar.
    """

    instance_id: InstanceId
    day: date
    model: str
    provider: str
    outcome: str
    requests: int
    input_tokens: int = 0
    output_tokens: int = 0
    micros: int = 0

    @property
    def key(self) -> tuple[str, date, str, str, str]:
        """What tells it from others."""
        return self.instance_id, self.day, self.model, self.provider, self.outcome


def summed(usages: Iterable[Usage]) -> list[Usage]:
    """One for each key, in the order of keys: two routers that write at once cannot block each other."""
    sums: dict[tuple[str, date, str, str, str], Usage] = {}
    for one in usages:
        held = sums.get(one.key)
        sums[one.key] = (
            one
            if held is None
            else replace(
                held,
                requests=held.requests + one.requests,
                input_tokens=held.input_tokens + one.input_tokens,
                output_tokens=held.output_tokens + one.output_tokens,
                micros=held.micros + one.micros,
            )
        )
    return [sums[key] for key in sorted(sums)]
