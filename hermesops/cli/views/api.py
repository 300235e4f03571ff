"""Lines and tables of the users' API, for people."""

from typing import TYPE_CHECKING

from hermesops.cli.console import table_lines
from hermesops.views.users.api import orphan

if TYPE_CHECKING:
    from hermesops.model.api_figures import UsersHalf

_TURN_COLUMNS = ("turn", "instance", "state", "since")
_CONNECTION_COLUMNS = ("service", "linked", "expired")


def status_lines(half: "UsersHalf") -> list[str]:
    """The state of the API, counts first."""
    requests = half.requests
    linked, expired = (sum(getattr(each, name) for each in half.connections) for name in ("linked", "expired"))
    return [
        f"processes       {half.processes}",
        f"users           {requests.users}, slow for {requests.slow_users}",
        f"webhooks        {requests.webhooks_taken} taken, {requests.webhooks_refused} refused",
        f"connections     {linked} linked, {expired} expired within a day",
        f"orphaned turns  of {half.orphaned_users} users",
        "",
        *table_lines(_TURN_COLUMNS, [orphan(turn) for turn in half.orphaned], "no orphaned turns"),
        "",
        *table_lines(_CONNECTION_COLUMNS, [vars(each) for each in half.connections], "no connections"),
    ]
