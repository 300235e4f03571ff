"""``hermesops billing``: Stripe's events about subscriptions, and the changes of agents that follow."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.base.typed_values import one_of
from hermesops.cli import context
from hermesops.cli.console import advice, require_reason, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.views import billing as view
from hermesops.cli.views.users import sweep_lines
from hermesops.errors import CHANGES_REMAIN, Hint, UsageError
from hermesops.views.users.billing import event as event_shape
from hermesops.views.users.users import sweep as sweep_shape

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.model.billing.events import BillingEvent
    from hermesops.users.subscriptions.sweep import SweepReport

app = Noun(no_args_is_help=True)

Event = Annotated[str, typer.Argument(help="Number of the event, or Stripe's id of it.")]


@app.command(waits=True)
def apply(
    source: Annotated[str, typer.Argument(metavar="FILE", help="The body as received; - is standard input.")] = "",
    signature: Annotated[str, typer.Option(help="The header Stripe-Signature as received.")] = "",
) -> int:
    """Process one event of Stripe's; without FILE, all events in the queue of the platform's webhook endpoint.

    What an event asks for is left to the workers. Events may come twice and in any order. One that is not Stripe's, too
    old or of the other mode is refused: exit code 3. One that a person has to look at ends with exit code 7.
    """
    if not source:
        if signature:
            raise UsageError("--signature goes with the body that it signs", hint=Hint(("billing", "apply", "FILE")))
        _work_off()
        return 0
    if not signature:
        raise UsageError(
            "missing --signature: the header Stripe-Signature of the request",
            hint=Hint(("billing", "apply", source, "--signature", "HEADER")),
        )
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
    rows = [
        event_shape(billing_event)
        for billing_event in context.compose().billing_events.list(state=chosen, user=user, limit=limit)
    ]
    table("billing-list", "events", ("event", "type", "subscription", "state", "due", "detail"), rows, "no events")


@app.command()
def show(event: Event) -> None:
    """Show one event: its content, its outcome, and the other events of its user."""
    events = context.compose().billing_events
    billing_event = events.get(event)
    others = events.others(billing_event)
    data = {**event_shape(billing_event), "others": [event_shape(other) for other in others]}
    result("billing-show", data, view.lines(billing_event, others))


@app.command(waits=True)
def retry(
    event: Annotated[str, typer.Argument(help="Number of the event, or Stripe's id of it.", show_default=False)] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every event that was set aside.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Why; goes into the audit log.")] = "",
) -> None:
    """Process an event again that waits, was set aside, dismissed or refused, as after a change of settings.

    An operation that has failed is opened anew.
    """
    if bool(event) == everything:
        raise UsageError(
            "missing EVENT: name one event, or use --all for all that were set aside", hint=Hint(("billing", "list"))
        )
    require_reason(reason, "billing", "retry", event or "--all")
    container = context.compose()
    if not everything:
        billing_event = container.billing_events.get(event)

        async def work(connected: "Connected") -> "BillingEvent":
            return await connected.billing.retry(billing_event, reason=reason)

        _show(context.run_connected(container, work))
        return

    async def work_all(connected: "Connected") -> "list[BillingEvent]":
        return await connected.billing.retry_all(reason=reason)

    looked = context.run_connected(container, work_all)
    aside = sum(billing_event.state == "set_aside" for billing_event in looked)
    line = f"processed again: {counted(len(looked), 'event')}; {aside} still set aside"
    result("billing-retry", {"events": [event_shape(billing_event) for billing_event in looked]}, [line])


@app.command(waits=True)
def sweep(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List differences; record nothing.")] = False,
) -> int:
    """Compare all subscriptions at Stripe with what events said, and repair what no event told.

    Workers do this once a day. A difference is applied as an event of that moment would be. Remaining differences and
    problems end with exit code 7.
    """

    async def work(connected: "Connected") -> "SweepReport":
        if dry_run:
            return await connected.sweep.run(is_dry_run=True)
        return await connected.jobs.sweep_now()

    report = context.run_connected(context.compose(), work)
    result("billing-sweep", sweep_shape(report), sweep_lines(report))
    return CHANGES_REMAIN if report.problem_count or (dry_run and report.differences) else 0


@app.command()
def dismiss(
    events: Annotated[
        list[str], typer.Argument(metavar="EVENT...", help="Numbers of events, or Stripe's ids of them.")
    ],
    reason: Annotated[str, typer.Option("--reason", help="Why; goes into the audit log.")] = "",
) -> None:
    """Dismiss events that were set aside: a person has reviewed them, and no retry can apply them.

    Data of a dismissed event still counts towards its subscription, and later events are processed as usual. billing
    retry processes a dismissed event again.
    """
    container = context.compose()
    billing_events = [container.billing_events.get(event) for event in events]

    async def work(connected: "Connected") -> "list[BillingEvent]":
        return connected.billing.dismiss(billing_events, reason=reason)

    dismissed = context.run_connected(container, work)
    line = f"{counted(len(dismissed), 'event')} dismissed: no operation follows, and no alert"
    result("billing-dismiss", {"events": [event_shape(billing_event) for billing_event in dismissed]}, [line])


def _show(event: "BillingEvent") -> None:
    lines = view.lines(event, [])
    if event.operation_id:
        lines.append(advice(("operation", "continue", event.operation_id), "waits for its end"))
    result("billing-show", event_shape(event), lines)
