"""Use of models by instances: the registry keeps it, and the model router counts it against a budget. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

from hermesops.model.ids import InstanceId


@dataclass(frozen=True)
class Spent:
    """Model usage of an instance.

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
        """The unique key of a row."""
        return self.instance_id, self.day, self.model, self.provider, self.outcome


def summed(usages: Iterable[Usage]) -> list[Usage]:
    """One for each key, in the order of keys: two routers that write at once cannot block each other."""
    sums: dict[tuple[str, date, str, str, str], Usage] = {}
    for usage in usages:
        total = sums.get(usage.key)
        sums[usage.key] = (
            usage
            if total is None
            else replace(
                total,
                requests=total.requests + usage.requests,
                input_tokens=total.input_tokens + usage.input_tokens,
                output_tokens=total.output_tokens + usage.output_tokens,
                micros=total.micros + usage.micros,
            )
        )
    return [sums[key] for key in sorted(sums)]
