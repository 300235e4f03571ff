"""The most that open requests can cost is reserved: in whatever order they begin, end and are charged."""

import asyncio
import itertools
import json
import random
from collections.abc import Callable
from datetime import date
from pathlib import Path

from hermesops.model.billing.model_usage import NOTHING, Account, Spent, Usage
from hermesops.model.billing.route import ROUTES
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.account_cache import AccountCache
from hermesops.programs.model_router.accounts.books import Books
from hermesops.programs.model_router.accounts.reservations import LONGEST_S, SETTLED_WITHIN_S, Reservations
from hermesops.programs.model_router.accounts.usage import Spool
from hermesops.programs.model_router.metrics import Metrics
from hermesops.programs.model_router.requests.admission import Admission, Refused, Reserved
from hermesops.programs.model_router.requests.gate import RESERVATION, Gate, Limits, Receive, Scope, Send
from hermesops.programs.model_router.requests.prices import highest_prices
from tests.unit.programs.model_router.requests.test_gate import ASKED, INSTANCE, SECRET, post

PRICES = highest_prices(ROUTES)
ADA, BOB = InstanceId("ada"), InstanceId("bob")
_DAY = date(2027, 1, 15)
BUDGET = 100_000
"""Ten cents: some 10,000 tokens of the dearest route's answers."""


async def admitted(
    budget: int | None = BUDGET, clock: Callable[[], float] = lambda: 0.0
) -> tuple[Admission, AccountCache]:
    table = {instance_id: Account(1, None, budget) for instance_id in (ADA, BOB)}
    accounts = AccountCache(lambda: table, clock=clock)
    await accounts.read()
    return Admission([SECRET], accounts), accounts


def spent(accounts: AccountCache) -> int:
    account = accounts.of(ADA)
    assert account
    return account.spent.micros


async def test_requests_at_once_reserve_no_more_than_is_left() -> None:
    admission, accounts = await admitted()

    reservations = [admission.reserve(ADA, (1_000, 4_000, 256), PRICES) for _ in range(8)]

    given = [reservation.output_tokens for reservation in reservations if isinstance(reservation, Reserved)]
    assert given == [4_000, 4_000, 1_250], "the third is as long as the rest pays for"
    assert accounts.reservations.of(ADA).micros <= BUDGET
    refused = next(reservation for reservation in reservations if isinstance(reservation, Refused))
    assert (refused.status, refused.code, refused.retry_after_s) == (429, "too_many_at_once", 5)
    assert isinstance(admission.reserve(BOB, (1_000, 4_000, 256), PRICES), Reserved), "another's are another's"


async def test_what_is_left_has_to_pay_for_the_request_and_an_answer() -> None:
    admission, _ = await admitted()

    reservation = admission.reserve(ADA, (100_000, 4_000, 256), PRICES)

    assert isinstance(reservation, Refused)
    assert (reservation.status, reservation.code) == (429, "insufficient_quota")
    assert "0.25 USD" in reservation.message


async def test_a_budget_of_tokens_is_reserved_alike_and_none_reserves_nothing() -> None:
    table = {ADA: Account(1, 5_000, None)}
    accounts = AccountCache(lambda: table)
    await accounts.read()
    admission = Admission([SECRET], accounts)

    given = [admission.reserve(ADA, (1_000, 3_000, 256), PRICES) for _ in range(3)]

    assert [reservation.output_tokens for reservation in given if isinstance(reservation, Reserved)] == [3_000]
    endless, _ = await admitted(None)
    assert [endless.reserve(ADA, (10**6, 16_384, 256), PRICES) for _ in range(100)][-1].output_tokens == 16_384  # type: ignore[union-attr]


async def test_in_whatever_order_they_are_charged_and_end_no_budget_is_overdrawn(tmp_path: Path) -> None:
    """Charged before the answer's end or after it, for less than was reserved, as an error, or never."""
    for number in range(200):
        chosen = random.Random(number)  # noqa: S311 - orders, not secrets
        now = itertools.count()
        admission, accounts = await admitted(clock=lambda: float(next(now)) / 1_000)  # noqa: B023 - used within the turn
        books = Books(accounts, Spool(tmp_path, lambda _, __: None))
        open_: list[tuple[Reserved, list[str]]] = []
        for _ in range(60):
            reservation = admission.reserve(ADA, (chosen.randint(10, 4_000), chosen.randint(256, 8_000), 256), PRICES)
            if isinstance(reservation, Reserved):
                open_.append((reservation, chosen.choice([["end", "charge"], ["charge", "end"], ["fail"], ["end"]])))
            if open_:
                _step(admission, books, open_, chosen)
            assert spent(accounts) + accounts.reservations.of(ADA).micros <= BUDGET, number
        while open_:
            _step(admission, books, open_, chosen)
        assert spent(accounts) <= BUDGET, number


def _step(admission: Admission, books: Books, open_: list[tuple[Reserved, list[str]]], chosen: random.Random) -> None:
    reserved, left = chosen.choice(open_)
    what = left.pop(0)
    if what == "charge":
        most = PRICES.most(0, reserved.output_tokens)
        cost = Usage(ADA, _DAY, "gpt-4o", "openai", "200", 1, 1, 1, chosen.randint(0, most.micros))
        books.use(cost, reserved.reservation)
    else:
        admission.answered(reserved, is_free=what == "fail")
    if not left:
        open_.remove((reserved, left))


def test_a_reservation_ends_when_it_is_charged_or_free_and_else_by_itself() -> None:
    now = [0.0]
    held = Reservations(clock=lambda: now[0])
    most = Spent(10, 20)
    charged, free, untold, lost = (held.hold(ADA, most) for _ in range(4))

    held.settle(charged)
    held.settle(charged)
    held.answered(free, is_free=True)
    held.answered(untold, is_free=False)
    assert held.of(ADA) == most + most
    now[0] = SETTLED_WITHIN_S
    assert held.of(ADA) == most, "nobody told its cost"
    now[0] = LONGEST_S + SETTLED_WITHIN_S
    assert held.of(ADA) == NOTHING, "nobody told even its end"
    held.answered(lost, is_free=False)


class Paid:
    """Stands for LiteLLM: answers when it may, and tells the cost later, as its logger does."""

    def __init__(self, books: Books) -> None:
        self.books, self.began, self.may_answer = books, asyncio.Event(), asyncio.Event()
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = json.loads((await receive())["body"])
        self.asked.append((scope["state"][RESERVATION], body["max_tokens"]))
        self.began.set()
        await self.may_answer.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    def charge(self) -> None:
        for reservation, tokens in self.asked:
            cost = ROUTES[1].micros(10, tokens)
            self.books.use(Usage(INSTANCE, _DAY, "gpt-4o", "openai", "200", 1, 10, tokens, cost), reservation)
        self.asked.clear()


async def test_eight_dear_requests_at_once_spend_a_budget_and_no_more(tmp_path: Path) -> None:
    admission, accounts = await admitted()
    books = Books(accounts, Spool(tmp_path, lambda _, __: None))
    behind = Paid(books)
    gate = Gate(behind, admission, Metrics({}), limits=Limits(output_tokens={"light": 16_384}))
    dear = {**ASKED, "model": "gpt-4o", "max_tokens": 16_384}

    async def ask() -> int:
        return (await post(gate, dear)).status_code

    answers = asyncio.gather(*(ask() for _ in range(8)))
    await behind.began.wait()
    behind.may_answer.set()
    statuses = await answers
    assert sorted(statuses) == [200, *[429] * 7], "one takes all that is left"
    assert accounts.reservations.of(ADA) != NOTHING, "its cost is not told yet"
    assert await ask() == 429
    behind.charge()
    assert accounts.reservations.of(ADA) == NOTHING
    assert 0 < spent(accounts) <= BUDGET


async def test_a_router_that_was_killed_knows_no_reservation_of_before() -> None:
    """They are in memory: whoever was cut off asks again, and is not refused for what nobody answers any more."""
    admission, accounts = await admitted()
    assert isinstance(admission.reserve(ADA, (1_000, 9_700, 256), PRICES), Reserved)
    assert isinstance(admission.reserve(ADA, (1_000, 9_700, 256), PRICES), Refused)

    again, _ = await admitted()

    assert isinstance(again.reserve(ADA, (1_000, 9_700, 256), PRICES), Reserved)
    assert accounts.reservations.of(ADA) != NOTHING
