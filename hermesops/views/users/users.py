"""JSON objects of users and their requests, for every face: nothing that a user said."""

from typing import TYPE_CHECKING

from hermesops.views.agents.instances import instance
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.model.billing.metering import MeteredSum
    from hermesops.model.billing.user_request import UserRequest
    from hermesops.users.billing.subscription import Subscription
    from hermesops.users.subscriptions.sweep import SweepReport
    from hermesops.users.user_requests.directory import UserOverview


def request(row: "UserRequest") -> dict[str, object]:
    """A request without its content. Its outcome stands in words of ours."""
    return {
        "request": row.id,
        "user_id": row.user_id,
        "kind": row.kind,
        "state": row.state.value,
        "code": row.code or None,
        "detail": row.detail or None,
        "operation": row.operation_id,
        "created": timestamp(row.created_at),
        "due": timestamp(row.due_at),
        "ended": timestamp(row.ended_at),
        "tries": row.tries,
    }


def subscription(row: "Subscription") -> dict[str, object]:
    """A subscription as its events say it."""
    return {
        "subscription": row.id,
        "status": row.status.value,
        "prices": list(row.prices),
        "pause": row.pause or None,
        "started": timestamp(row.started_at),
        "failing_since": timestamp(row.failing_since),
    }


def metered(row: "MeteredSum") -> dict[str, object]:
    """A user's usage of 31 days by one meter, and the part of it that Stripe has."""
    return {
        "meter": row.meter.value,
        "quantity": row.quantity,
        "reported": row.reported,
        "last": timestamp(row.last_at),
    }


def overview(row: "UserOverview") -> dict[str, object]:
    """A user with agent, subscriptions, requests and metered usage."""
    return {
        "user_id": row.user.id,
        "alias": row.user.alias or None,
        "instance": instance(row.instance) if row.instance else None,
        "paid_by": row.paid_by or None,
        "subscriptions": [subscription(each) for each in row.subscriptions],
        "requests": [request(each) for each in row.requests],
        "metered": [metered(each) for each in row.metered],
    }


def sweep(report: "SweepReport") -> dict[str, object]:
    """The result of a sweep over all subscriptions."""
    differences = [
        {
            "subscription": difference.fact.subscription_id,
            "user_id": difference.fact.user_id,
            "difference": difference.words,
        }
        for difference in report.differences
    ]
    return {
        "dry_run": report.is_dry_run,
        "subscriptions": report.count,
        "differences": differences,
        "problems": list(report.problems),
        "problem_count": report.problem_count,
    }
