"""Model usage of agents: sums for the operator, and monthly budgets."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from hermesops.model.billing.model_usage import Usage
from hermesops.model.plan import Plan
from hermesops.settings.sections import ModelSettings
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.model_usage import Budget

PER_DOLLAR = 1_000_000


class By(StrEnum):
    """Keys by which usage is summed."""

    USER = "user"
    DAY = "day"
    MODEL = "model"
    PROVIDER = "provider"
    OUTCOME = "outcome"


@dataclass(frozen=True)
class UsageSum:
    """The usage of one user, day, model, provider or outcome.

    Attributes:
        answers: Requests that a model answered.
        failures: Attempts that a provider failed at, and requests that the router refused.
        micros: Millionths of a US dollar.
    """

    name: str
    answers: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    micros: int = 0

    def plus(self, usage: Usage) -> "UsageSum":
        """Add one row of usage; an outcome other than 200 counts as a failure."""
        is_answer = usage.outcome == "200"
        return UsageSum(
            self.name,
            self.answers + usage.requests * is_answer,
            self.failures + usage.requests * (not is_answer),
            self.input_tokens + usage.input_tokens,
            self.output_tokens + usage.output_tokens,
            self.micros + usage.micros,
        )


@dataclass(frozen=True)
class ModelUsage:
    """Sums the model usage of an environment's agents."""

    registry: Registry

    def sums(self, since: date, *, by: By, user: str = "") -> tuple[list[UsageSum], UsageSum]:
        """Sums from a day on, the dearest first, days in their order; and the sum of all.

        Args:
            user: Only of this user's instance, by any of its names; empty for the whole fleet.

        Raises:
            UsageError: There is no such user.
        """
        registry = self.registry
        instance_id = registry.instances.find(user).id if user else None
        rows = registry.model_usage.list(since, instance_id=instance_id)
        titles = (
            {instance.id: instance.title for instance in registry.instances.list(terminated=True)}
            if by is By.USER
            else {}
        )
        names: Mapping[By, Callable[[Usage], str]] = {
            By.USER: lambda row: titles.get(row.instance_id, row.instance_id),
            By.DAY: lambda row: row.day.isoformat(),
            By.MODEL: lambda row: row.model or "none",
            By.PROVIDER: lambda row: row.provider or "router",
            By.OUTCOME: lambda row: row.outcome,
        }
        ordered = sorted(_sums(rows, names[by]), key=lambda usage: usage.name)
        if by is not By.DAY:
            ordered.sort(key=lambda usage: (-usage.micros, -usage.answers))
        total = UsageSum("total")
        for row in rows:
            total = total.plus(row)
        return ordered, total


def _sums(rows: Iterable[Usage], name_of: Callable[[Usage], str]) -> list[UsageSum]:
    sums: dict[str, UsageSum] = {}
    for row in rows:
        name = name_of(row)
        sums[name] = sums.get(name, UsageSum(name)).plus(row)
    return list(sums.values())


def budgets_of(settings: ModelSettings) -> Mapping[Plan, Budget]:
    """Monthly budget of an agent, by plan."""
    return {
        plan: Budget(
            settings.tokens_per_month.get(plan),
            round(settings.usd_per_month[plan] * PER_DOLLAR) if plan in settings.usd_per_month else None,
        )
        for plan in Plan
    }
