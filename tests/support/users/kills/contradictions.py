"""What must not be so once users have finished and all parts live: turns, agents, subscriptions, events and money."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import sqlalchemy as sa

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.vendors.stripe.books import PRICES
from hermesops.model.billing.events import BillingState
from hermesops.model.billing.metering import EntryState
from hermesops.model.billing.user_request import RequestState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.store.registry import Registry
from hermesops.store.registry.schema.tables import billing_events, hermes_instances, operations
from hermesops.store.registry.schema.user_tables import metered_usage, turns, user_requests
from tests.support.users.kills.chatting import Message
from tests.support.users.kills.outside.echo_agents import EXPIRED
from tests.support.users.kills.run import KillRun
from tests.support.users.kills.world import KillWorld

_SETTLE_S = 180.0
_OPEN_EVENTS = (BillingState.QUEUED.value, BillingState.WAITING.value)
_OPEN_REQUESTS = (RequestState.QUEUED.value, RequestState.WAITING.value)
_OPEN_OPERATIONS = (OperationStatus.PENDING, OperationStatus.RUNNING)


async def _settled(registry: Registry) -> None:
    """Wait until nothing is under way."""

    async def check() -> bool | Pending[bool]:
        counts = await asyncio.to_thread(_unfinished, registry)
        return True if not any(counts.values()) else Pending(str(counts))

    await until(check, what="the end of all work", timeout_s=_SETTLE_S, every_s=1)


def _unfinished(registry: Registry) -> Mapping[str, int]:
    """Number of rows of each kind whose work has not ended."""
    conditions = {
        turns: turns.c.ended_at.is_(None),
        billing_events: billing_events.c.state.in_(_OPEN_EVENTS),
        user_requests: user_requests.c.state.in_(_OPEN_REQUESTS),
        operations: operations.c.status.in_(_OPEN_OPERATIONS),
    }
    with registry._database.reading() as connection:
        return {
            table.name: int(connection.scalar(sa.select(sa.func.count()).select_from(table).where(condition)) or 0)
            for table, condition in conditions.items()
        }


async def contradictions(run: KillRun) -> Sequence[str]:
    """Everything that is not as it has to be, a line each, once nothing is under way."""
    registry = run.world.container.registry
    try:
        await _settled(registry)
        return [
            *_of_users(run),
            *_of_turns(run, registry),
            *_of_agents(run),
            *_of_approvals(run),
            *await _of_transcripts(run),
            *_of_subscriptions(run, registry),
            *_of_events(run.world, registry),
            *await _of_machines(run.world, registry),
            *_of_money(run),
            *await _of_metering(run.world, registry),
        ]
    finally:
        registry.close()


def _of_users(run: KillRun) -> Sequence[str]:
    """What users were shown."""
    messages = [f"{message.key}: {wrong}" for message in run.messages for wrong in message.wrong]
    return [*messages, *(f"{purchase.key}: {wrong}" for purchase in run.purchases for wrong in purchase.wrong)]


def _of_turns(run: KillRun, registry: Registry) -> Sequence[str]:
    """Each message is one turn that ended as its user was told."""
    with registry._database.reading() as connection:
        rows = connection.execute(sa.select(turns.c.client_key, turns.c.state, turns.c.message)).all()
    states, kept = Counter(row.client_key for row in rows), {row.client_key: row for row in rows}
    wrong = [f"{key} has {count} turns" for key, count in states.items() if count != 1]
    for message in run.messages:
        row = kept.get(message.key)
        if row is None or row.state != message.end:
            wrong.append(f"{message.key} ended as {message.end!r}, and its row is {row and row.state}")
        elif row.message is not None:
            wrong.append(f"{message.key} has ended, and its text is kept")
    return wrong


def _of_agents(run: KillRun) -> Sequence[str]:
    """An agent gets each message once, and one that was answered at all."""
    wrong = []
    for chatter, user in zip(run.world.chatters, run.chatting, strict=True):
        counts = chatter.agent.counts()
        wrong += [f"{message!r} was {count} times at its agent" for message, count in counts.items() if count > 1]
        outputs = {run.text: run.output for run in chatter.agent.runs.values()}
        wrong += [
            f"{message.key} was answered {message.answer!r}, and its agent said {outputs.get(message.text)!r}"
            for message in user.messages
            if message.end == "done" and outputs.get(message.text, "").strip() != message.answer.strip()
        ]
    return wrong


def _of_approvals(run: KillRun) -> Sequence[str]:
    """An agent does what its user approved, and nothing that the user refused or never decided."""
    wrong = []
    for chatter, user in zip(run.world.chatters, run.chatting, strict=True):
        decided = {each.command: each for message in user.messages for each in message.decisions.by_number.values()}
        for command, outcome in chatter.agent.outcomes.items():
            decision = decided.get(command)
            is_users = decision is not None and decision.is_sent and decision.choice == outcome
            is_missed = outcome == EXPIRED and not (decision and decision.is_taken)
            if not is_users and not is_missed:
                wrong.append(f"{command!r} of {user.name} ended as {outcome!r}, and the user decided {decision}")
    return wrong


async def _of_transcripts(run: KillRun) -> Sequence[str]:
    """A conversation shows each question once, and behind it its answer."""
    wrong: list[str] = []
    for user in run.chatting:
        for name in sorted({message.conversation for message in user.messages}):
            rows = (await user.asking.ask("GET", f"/chat/conversations/{name}"))["messages"]
            shown = [(row["role"], row["text"].strip()) for row in rows]
            for message in user.messages:
                if message.conversation == name and message.end == "done":
                    wrong += _in_transcript(message, shown)
    return wrong


def _in_transcript(message: Message, shown: Sequence[tuple[str, str]]) -> Sequence[str]:
    places = [place for place, row in enumerate(shown) if row == ("user", message.text)]
    if len(places) != 1:
        return [f"the conversation shows {message.key} {len(places)} times"]
    answer = shown[places[0] + 1 : places[0] + 2]
    is_right = answer == [("assistant", message.answer.strip())]
    return [] if is_right else [f"the conversation shows {answer} behind {message.key}, not {message.answer!r}"]


def _of_subscriptions(run: KillRun, registry: Registry) -> Sequence[str]:
    """Each paid subscription made one instance, by one operation."""
    column = hermes_instances.c.stripe_subscription_id
    with registry._database.reading() as connection:
        bound = connection.execute(sa.select(column, hermes_instances.c.id).where(column.is_not(None))).all()
        rows = connection.execute(sa.select(operations.c.instance_id, operations.c.kind, operations.c.status)).all()
    paid = Counter(run.world.stripe()["subscriptions"].keys())
    instances = Counter(row.stripe_subscription_id for row in bound)
    wrong = [f"subscription {id_} has {instances[id_]} instances" for id_ in paid | instances if instances[id_] != 1]
    begun = Counter(row.instance_id for row in rows if row.kind == OperationKind.PROVISION)
    wrong += [f"instance {row.id} was provisioned {begun[row.id]} times" for row in bound if begun[row.id] != 1]
    lives = {OperationKind.PROVISION, OperationKind.TERMINATE}
    undone = [row for row in rows if row.kind in lives and row.status is not OperationStatus.DONE]
    return [*wrong, *(f"{row.kind} of {row.instance_id} is {row.status}" for row in undone)]


def _of_events(world: KillWorld, registry: Registry) -> Sequence[str]:
    """Each event that Stripe sent was applied, and is one row."""
    with registry._database.reading() as connection:
        rows = connection.execute(
            sa.select(billing_events.c.event_id, billing_events.c.state, billing_events.c.detail)
        ).all()
    known = Counter(row.event_id for row in rows)
    sent = {event["id"] for event in world.events_sent()}
    wrong = [f"event {id_} has {known[id_]} rows" for id_ in sorted(sent) if known[id_] != 1]
    return [*wrong, *(f"event {row.event_id} is {row.state}: {row.detail}" for row in rows if row.state != "applied")]


async def _of_machines(world: KillWorld, registry: Registry) -> Sequence[str]:
    """Each instance had one machine, and none is left of those that ended."""
    orders = Counter(world.orders())
    rows = registry.instances.list()
    living = {row.machine_name for row in rows if row.status is not InstanceStatus.TERMINATED}
    there = {machine["name"] for machine in await world.operator.machines()}
    wrong = [f"machine {name} was ordered {count} times" for name, count in orders.items() if count != 1]
    return [*wrong, *(f"machine {name} is nobody's" for name in sorted(there - living))]


def _of_money(run: KillRun) -> Sequence[str]:
    """What was paid is what was bought: an invoice each, of its plan's price."""
    stripe = run.world.stripe()
    paid = [purchase for purchase in run.purchases if purchase.is_paid]
    prices = dict(PRICES.values())
    expected, totals = sum(prices[each.plan] for each in paid), [row["total"] for row in stripe["invoices"].values()]
    complete = [id_ for id_, session in stripe["sessions"].items() if session["status"] == "complete"]
    wrong = [] if sum(totals) == expected else [f"{sum(totals)} cents were paid, and {expected} were to be"]
    if sorted(complete) != sorted(each.session for each in paid):
        wrong.append(f"{len(complete)} pages were paid, and users paid {len(paid)}")
    counts = {"invoices": len(totals), "subscriptions": len(stripe["subscriptions"])}
    return [*wrong, *(f"{count} {name} of {len(paid)} plans" for name, count in counts.items() if count != len(paid))]


async def _of_metering(world: KillWorld, registry: Registry) -> Sequence[str]:
    """Stripe's meters have what the ledger has, entry by entry."""
    ran = await world.operator.run("job", "run", "metering")
    with registry._database.reading() as connection:
        rows = connection.execute(sa.select(metered_usage)).all()
    events = world.stripe()["meter_events"]
    wrong = [] if ran.exit_code == 0 else [str(ran)]
    wrong += [f"usage {row.identifier} is {row.state}" for row in rows if row.state != EntryState.REPORTED.value]
    ledger = {row.identifier: row.quantity for row in rows}
    theirs = {name: int(event["payload"]["value"]) for name, event in events.items()}
    return wrong if ledger == theirs else [*wrong, f"the ledger has {ledger}, and Stripe {theirs}"]
