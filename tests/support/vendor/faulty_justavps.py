"""A JustAVPS whose answers go wrong by chance, as often as one asks; the seed says which ones."""

import random
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.support.vendor.fake_justavps import FakeJustAvps


@dataclass
class MoodyJustAvps(FakeJustAvps):
    """Wrong answers at a rate, in everything but refusals.

    Attributes:
        seed: Of the dice.
        rate: Share of the answers that go wrong.
        wrong: How many went wrong so far.
    """

    seed: int = 0
    rate: float = 0.2
    wrong: int = 0
    dice: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)  # noqa: S311 - dice, not keys

    def _unlucky(self) -> bool:
        unlucky = self.dice.random() < self.rate
        self.wrong += unlucky
        return unlucky

    async def _order(self, request: Request) -> Response:
        if self._unlucky():
            self.lose_orders += 1
        return await super()._order(request)

    async def _list(self, request: Request) -> Response:
        return _bad_gateway() if self._unlucky() else await super()._list(request)

    async def _observe(self, request: Request) -> Response:
        return _bad_gateway() if self._unlucky() else await super()._observe(request)

    async def _delete(self, request: Request) -> Response:
        answer = await super()._delete(request)
        return _bad_gateway() if self._unlucky() else answer


def _bad_gateway() -> Response:
    return JSONResponse({"message": "bad gateway"}, 502)
