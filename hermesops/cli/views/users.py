"""Lines and tables of users, for people."""

from typing import TYPE_CHECKING

from hermesops.cli.console import table_lines
from hermesops.views.users.users import metered, request, subscription

if TYPE_CHECKING:
    from hermesops.users.subscriptions.sweep import SweepReport
    from hermesops.users.user_requests.directory import UserOverview

CALLER_COLUMNS = ("state", "used", "tasks", "open_tasks", "undelivered", "caller", "user_id", "failed_tasks", "created")
REQUEST_COLUMNS = ("created", "kind", "state", "detail", "code", "operation", "request")
_METERED_COLUMNS = ("meter", "quantity", "reported", "last")
_SUBSCRIPTION_COLUMNS = ("subscription", "status", "prices", "started", "failing_since")


def overview_lines(row: "UserOverview") -> list[str]:
    """Lines about a user: agent first, then subscriptions, usage and requests."""
    agent = f"{row.instance.status}, plan {row.instance.plan}" if row.instance else "none"
    lines = [f"user    {row.user.title}", f"id      {row.user.id}", f"agent   {agent}"]
    lines += [f"paid by {row.paid_by}"] if row.paid_by else []
    subscriptions = [subscription(each) for each in row.subscriptions]
    requests = [request(each) for each in row.requests]
    return [
        *lines,
        "",
        *table_lines(_SUBSCRIPTION_COLUMNS, subscriptions, "no subscriptions"),
        "",
        *table_lines(_METERED_COLUMNS, [metered(each) for each in row.metered], "no metered usage"),
        "",
        *table_lines(REQUEST_COLUMNS, requests, "no requests"),
    ]


def sweep_lines(report: "SweepReport") -> list[str]:
    """A sweep: its result, then each difference and problem."""
    differences = [f"{difference.fact.subscription_id}: {difference.words}" for difference in report.differences]
    hidden = report.problem_count - len(report.problems)
    more = [f"and {hidden} more problems"] if hidden else []
    return [report.summary, *differences, *report.problems, *more]
