"""Stripe's events, delivered to the installed command and in bulk: a shard of what tests/soak/test_billing.py does."""

import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from tests.support.billing.many_subscriptions import Scale, prepared, trial
from tests.support.billing.stripe_events import USER, Endpoint, event, subscription
from tests.support.real.commands.command import Command, local_world
from tests.support.suite.shard import shard

SCALE = Scale(users=30, events=500, batches=3)


@pytest.fixture
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("billing"), driver="sim") as command:
        yield command


@pytest.mark.turns(30)
async def test_events_in_any_order_and_twice_end_in_the_one_right_state(world: Command) -> None:
    done = await trial(world, SCALE, seed=shard())
    assert done.wrong == {}
    assert set(done.states) == {"applied"}, done.states
    assert done.deliveries > done.events >= SCALE.events


@pytest.mark.turns(8)
async def test_a_subscription_lives_by_its_events(world: Command) -> None:
    endpoint, command = prepared(world)

    async def apply(event: dict[str, object], *, by: Endpoint = endpoint) -> tuple[int, dict[str, object]]:
        body, signature = by.signed(event)
        file = command.home / "event.json"
        file.write_bytes(body)
        ran = await command.run("billing", "apply", str(file), "--signature", signature, "--json")
        return ran.exit_code, json.loads(ran.stdout)

    now = datetime.now(UTC)
    begun = event("customer.subscription.created", subscription("sub_1"), at=now)
    assert (await apply(begun, by=Endpoint()))[0] == 3
    assert (await apply({**begun, "livemode": True}))[0] == 3
    assert "no events" in (await command.ok("billing", "list")).stdout
    code, shown = await apply(begun)
    assert (code, shown["state"]) == (0, "waiting")
    await command.ok("worker", "--once")
    done = await command.ok("billing", "apply")
    assert "0 waiting" in done.stdout
    assert (await apply(begun))[1]["deliveries"] == 2
    [agent] = (await command.ok("instance", "list", "--json")).json["instances"]
    assert (agent["user"], agent["status"]) == (USER, "running")
    failed = await apply(event("customer.subscription.updated", subscription("sub_1", status="past_due"), at=now))
    assert "is suspended at the end of the grace period" in str(failed[1]["detail"])
    ended = await apply(event("customer.subscription.deleted", subscription("sub_1", status="canceled"), at=now))
    assert "schedule termination" in str(ended[1]["detail"])
    shown = (await command.ok("billing", "show", "1", "--json")).json
    assert len(shown["others"]) == 2
    refused = await command.run("billing", "retry", "1", "--reason", "t")
    assert refused.exit_code in {0, 3}
    other = await apply(event("customer.subscription.created", subscription("sub_8", user="fred"), at=now))
    assert (other[0], other[1]["state"]) == (7, "set_aside")
    number = str(other[1]["event"])
    assert (await command.run("billing", "dismiss", "1", "--reason", "t")).exit_code == 3
    dismissed = (await command.ok("billing", "dismiss", number, "--reason", "t", "--json")).json["events"]
    assert [(str(event["event"]), event["state"]) for event in dismissed] == [(number, "dismissed")]
