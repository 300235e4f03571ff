"""The nightly sweep on either database: what no event told is repaired, whatever Stripe lists beside it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.ids import UserId
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.users.billing import current
from tests.support.billing.plan_world import PlanWorld, plan_world
from tests.support.real.stores.registries import TurnedClock, placed

OTHER = UserId("22222222-2222-4222-8222-222222222222")


@pytest.fixture
def clock() -> TurnedClock:
    """Begins now: the stand-in of Stripe has this computer's clock."""
    turned = TurnedClock()
    turned.timestamp = datetime.now(UTC)
    return turned


@pytest.fixture
async def world(registry: Registry, registry_url: str, clock: TurnedClock) -> AsyncIterator[PlanWorld]:
    database = Database(registry_url, clock=clock)
    async with plan_world(registry, database) as world:
        yield world
    database.close()


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "PAGE", 2)


def words(report_differences: object) -> list[str]:
    return [each.words for each in report_differences]  # type: ignore[attr-defined]


async def test_a_lost_event_is_repaired_and_a_second_sweep_finds_nothing(world: PlanWorld, clock: TurnedClock) -> None:
    bought = await world.subscribed("light")
    dry = await world.sweep().run(is_dry_run=True)
    assert words(dry.differences) == ["no event has come; it is active"]
    assert world.registry.billing.list() == ()
    report = await world.sweep().run()
    assert (report.count, report.problems) == (1, ())
    assert report.summary == "1 subscription compared; 1 repaired, 0 problems"
    [operation] = world.registry.operations.list()
    assert operation.intent["plan"] == "light"
    assert (await world.sweep().run()).differences == ()
    world.stripe.books.set_status(bought, "past_due")
    clock.turn(1)
    assert words((await world.sweep().run()).differences) == ["status active -> past_due"]
    assert (await world.sweep().run()).differences == ()
    [shown] = [entry for entry in world.registry.audit.list() if entry.action == "subscription_read"][:1]
    assert shown.subject == f"user/{world.user}"


async def test_an_event_that_came_later_than_the_page_counts(world: PlanWorld) -> None:
    bought = await world.subscribed()
    api = world.subscriptions()
    assert api is not None
    old = await api.get(bought)
    world.stripe.books.set_status(bought, "canceled")
    await world.sweep().run()
    await world.seen().record(old)
    assert words((await world.sweep().run()).differences) == []
    [*_, event] = world.registry.billing.of_user(world.user)
    assert event.fact is not None
    assert event.fact.status == "canceled"


@pytest.mark.usefixtures("small_pages")
async def test_pages_are_read_to_the_end_and_foreign_subscriptions_are_problems(world: PlanWorld) -> None:
    for _ in range(3):
        await world.subscribed()
        world.user = UserId(world.user[:-1] + str(int(world.user[-1]) + 1))
    books = world.stripe.books
    odd: dict[str, dict[str, object]] = {
        "sub_unreadable": {"items": None},
        "sub_nobody": {"metadata": {}},
        "sub_odd": {"status": "frozen"},
    }
    for id_, changes in odd.items():
        first = next(iter(books.subscriptions.values()))
        books.subscriptions[id_] = {**first, "id": id_, **changes}
    report = await world.sweep().run()
    assert (report.count, len(report.differences), report.problem_count) == (6, 3, 3)
    assert sorted(report.problems) == [
        "a subscription at Stripe cannot be read",
        "the subscription has a status that is not known here",
        "the subscription's metadata has no user_id",
    ]
    assert sum(line == "GET /subscriptions" for line in world.stripe.requests) == 3


async def test_another_user_and_a_subscription_that_is_gone_are_only_named(world: PlanWorld) -> None:
    bought = await world.subscribed()
    await world.sweep().run()
    world.stripe.books.subscription(bought)["metadata"] = {"user_id": OTHER}
    agent = placed(world.registry, "grace", Plan.LIGHT)
    world.registry.subscriptions.bind(agent.id, "sub_gone")
    before = len(world.registry.operations.list())
    report = await world.sweep().run()
    assert report.differences == ()
    assert f"{bought} names another user than its first event" in report.problems
    assert f"instance {agent.id} is paid by sub_gone, which Stripe does not list" in report.problems
    assert len(world.registry.operations.list()) == before


async def test_without_a_key_or_an_answer_nothing_is_concluded(world: PlanWorld) -> None:
    await world.subscribed()
    world.stripe_url = "http://127.0.0.1:9"
    with pytest.raises(UnavailableError, match="Stripe does not answer"):
        await world.sweep().run()
    world.is_sold = False
    assert not world.sweep().is_possible
    with pytest.raises(RefusedError, match=r"billing\.key"):
        await world.sweep().run()


async def test_a_statement_is_read_again_once_an_event_has_come(world: PlanWorld, clock: TurnedClock) -> None:
    statements = world.statements()
    assert statements.due() == []
    bought = await world.subscribed("heavy")
    await world.sweep().run()
    assert statements.due() == [world.user]
    clock.turn(1)
    assert await statements.run() == {world.user: ""}
    assert statements.due() == []
    shown = world.plans.get(world.user)
    assert shown is not None
    statement = shown.statement
    assert (statement.status, statement.plan, statement.ends_at) == ("active", "heavy", None)
    assert statement.next_charge is not None
    assert (statement.next_charge.amount, statement.next_charge.currency) == (5_900, "eur")
    [invoice] = statement.invoices
    assert (invoice.status, invoice.total, [line.amount for line in invoice.lines]) == ("paid", 5_900, [5_900])
    world.stripe.books.set_status(bought, "past_due")
    clock.turn(5)
    await world.sweep().run()
    assert statements.due() == [world.user]
    del world.stripe.books.subscriptions[bought]
    clock.turn(1)
    assert await statements.run() == {world.user: ""}
    shown = world.plans.get(world.user)
    assert shown is not None
    assert (shown.statement.status, shown.statement.invoices) == ("past_due", ())


async def test_words_of_stripe_are_bounded_and_shown_as_they_are_safe(world: PlanWorld, clock: TurnedClock) -> None:
    await world.subscribed()
    await world.sweep().run()
    [invoice] = world.stripe.books.invoices.values()
    line = {"description": "\x1b[2J\u202e" + "x" * 5_000, "amount": -1}
    invoice["lines"]["data"] = [line] * 30
    invoice["hosted_invoice_url"] = "http://elsewhere.test/invoice"
    clock.turn(1)
    await world.statements().run()
    shown = world.plans.get(world.user)
    assert shown is not None
    [read] = shown.statement.invoices
    assert (len(read.lines), read.has_more_lines, read.url) == (20, True, "")
    assert read.lines[0].description.startswith("\\x1b[2J\\u202ex")
    assert len(read.lines[0].description) <= 201
