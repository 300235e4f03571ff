"""The most that a request can cost, whichever route answers it. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil

from hermesops.model.billing.model_usage import Spent
from hermesops.model.billing.route import ModelRoute


@dataclass(frozen=True)
class Prices:
    """The highest prices of several routes, as the route that will answer is unknown.

    Attributes:
        read: Millionths of a dollar for a token that is read, whether or not the provider also caches it.
        written: The same for one that is written.
    """

    read: float
    written: float

    def most(self, input_tokens: int, output_tokens: int) -> Spent:
        """The most that so many tokens can cost."""
        return Spent(input_tokens + output_tokens, ceil(input_tokens * self.read + output_tokens * self.written))

    def affordable(self, left: Spent, input_tokens: int) -> int:
        """Tokens of an answer that the remaining budget pays for beside the input; may be negative."""
        by_money = (left.micros - ceil(input_tokens * self.read)) // self.written if self.written else left.tokens
        return int(min(left.tokens - input_tokens, by_money))


def highest_prices(routes: Iterable[ModelRoute]) -> Prices:
    """The highest prices among routes that may replace each other."""
    listed = tuple(routes)
    read = max(
        (max(route.input_price, route.cache_write_price, route.cache_hour_price) for route in listed), default=0.0
    )
    return Prices(read, max((route.output_price for route in listed), default=0.0))
