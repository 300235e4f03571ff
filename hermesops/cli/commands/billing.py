"""``hermesops billing``: Stripe's events about subscriptions, and what became of them."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import advice, require_reason, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.values import one_of
from hermesops.cli.views import billing as view
from hermesops.errors import CHANGES_REMAIN, Hint, UsageError
from hermesops.views.billing import event as event_shape

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.model.billing.events import BillingEvent

app = Noun(no_args_is_help=True)

Event = Annotated[str, typer.Argument(help="Number of the event, or Stripe's id of it.")]


@app.command()
def apply(
    source: Annotated[str, typer.Argument(metavar="FILE", help="The body as received; - is standard input.")] = "",
    signature: Annotated[str, typer.Option(help="The header Stripe-Signature as received.")] = "",
) -> int:
    """Take in one event of Stripe's; without FILE work off the queue that the platform's webhook endpoint fills.

    What an event asks for is left to the workers. Events may come twice and in any order. One that is not Stripe's, too
    old or of the other mode is refused: exit code 3. One that a person has to look at ends with exit code 7.
    """
    if not source:
        if signature:
            raise UsageError("--signature goes with the body that it signs", hint=Hint(("billing", "apply", "FILE")))
        _work_off()
        return 0
    if not signature:
        raise UsageError("say how Stripe signed it", hint=Hint(("billing", "apply", source, "--signature", "HEADER")))
    from hermesops.cli.options.files import read_bytes
    from hermesops.model.billing.events import MOST_BYTES

    body = read_bytes(source, most=MOST_BYTES)

    async def work(connected: "Connected") -> "BillingEvent":
        return await connected.billing.apply(body, signature)

    event = context.run_connected(context.compose(), work)
    _show(event)
    return CHANGES_REMAIN if event.state == "set_aside" else 0


def _work_off() -> None:
    container = context.compose()
    done = context.run_connected(container, lambda connected: connected.jobs.bill_everybody()).done
    counts = {state.value: count for state, count in container.billing_events.count().items()}
    result("billing", {"done": done, "events": counts}, [done])


@app.command("list")
def list_(
    state: Annotated[
        str,
        typer.Option(
            help="queued, waiting, applied, set_aside, dismissed or refused; all by default.", show_default=False
        ),
    ] = "",
    user: Annotated[str, typer.Option(help="User id or alias.", show_default=False)] = "",
    limit: Annotated[int, typer.Option(help="Most events.", min=1, max=10000)] = 50,
) -> None:
    """List events, the newest first, with why one waits or was set aside."""
    from hermesops.model.billing.events import BillingState

    chosen = one_of(BillingState, state, "--state") if state else None
    rows = [event_shape(one) for one in context.compose().billing_events.list(state=chosen, user=user, limit=limit)]
    table("billing-list", "events", ("event", "type", "subscription", "state", "due", "detail"), rows, "no events")


@app.command()
def show(event: Event) -> None:
    """Show one event: what it says, what became of it, and the others of its user."""
    events = context.compose().billing_events
    found = events.get(event)
    others = events.others(found)
    data = {**event_shape(found), "others": [event_shape(one) for one in others]}
    result("billing-show", data, view.lines(found, others))


@app.command()
def retry(
    event: Annotated[str, typer.Argument(help="Number of the event, or Stripe's id of it.", show_default=False)] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every event that was set aside.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; goes into the audit log.")] = "",
) -> None:
    """Look at an event again that waits, was set aside, dismissed or refused, as after a change of settings.

    An operation that has failed is opened anew.
    """
    if bool(event) == everything:
        raise UsageError("say which event, or --all that were set aside", hint=Hint(("billing", "list")))
    require_reason(reason, "billing", "retry", event or "--all")
    container = context.compose()
    if not everything:
        found = container.billing_events.get(event)

        async def work(connected: "Connected") -> "BillingEvent":
            return await connected.billing.retry(found, reason=reason)

        _show(context.run_connected(container, work))
        return

    async def work_all(connected: "Connected") -> "list[BillingEvent]":
        return await connected.billing.retry_all(reason=reason)

    looked = context.run_connected(container, work_all)
    aside = sum(one.state == "set_aside" for one in looked)
    line = f"looked at {len(looked)} events again; {aside} are set aside as before"
    result("billing-retry", {"events": [event_shape(one) for one in looked]}, [line])


@app.command()
def dismiss(
    events: Annotated[
        list[str], typer.Argument(metavar="EVENT...", help="Numbers of events, or Stripe's ids of them.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why; goes into the audit log.")] = "",
) -> None:
    """Have nothing follow from events that were set aside: a person has looked, and no retry can apply them.

    What such an event says of its subscription counts as before, and so does every later one. billing retry looks at a
    dismissed event again.
    """
    container = context.compose()
    found = [container.billing_events.get(event) for event in events]

    async def work(connected: "Connected") -> "list[BillingEvent]":
        return connected.billing.dismiss(found, reason=reason)

    dismissed = context.run_connected(container, work)
    count = f"{len(dismissed)} event" if len(dismissed) == 1 else f"{len(dismissed)} events"
    line = f"{count} dismissed: nothing follows, and no alert waits for it"
    result("billing-dismiss", {"events": [event_shape(one) for one in dismissed]}, [line])


def _show(event: "BillingEvent") -> None:
    lines = view.lines(event, [])
    if event.operation_id:
        lines.append(advice(("operation", "continue", event.operation_id), "waits for its end"))
    result("billing-show", event_shape(event), lines)
