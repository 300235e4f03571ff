"""Lists that a page shows as its command does: the same rows, by the same service, with the same shape."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from hermesops.base.typed_values import since
from hermesops.errors import UsageError
from hermesops.views.access import audit, certificates, secrets, tokens
from hermesops.views.agents import backups, cells, rollouts
from hermesops.views.machines import images, releases
from hermesops.views.observability import drills
from hermesops.views.users import billing, callers, messages, users

if TYPE_CHECKING:
    from hermesops.app.container import Container

_MOST = 500
"""Newest rows of a list that grows without end."""

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Listing:
    """A list with a page.

    Attributes:
        name: Its path.
        words: Of its command.
        columns: Keys of the rows that are shown, in their order.
        read: Reads the rows; given the filters of the address.
        filters: Names of the options of the command that the page has too.
        is_served: Whether the served console has it: its role of the database reads these rows.
        actions: Names of the fleet's actions that its page offers.
    """

    name: str
    title: str
    words: tuple[str, ...]
    columns: tuple[str, ...]
    read: "Callable[[Container, Mapping[str, str]], Rows]"
    filters: tuple[str, ...] = ()
    is_served: bool = True
    actions: tuple[str, ...] = ()

    def command(self, filters: Mapping[str, str]) -> tuple[str, ...]:
        """The command that prints the same rows."""
        options = [word for name in self.filters if filters.get(name) for word in (f"--{name}", filters[name])]
        return (*self.words, *options)


def _audit(container: "Container", filters: Mapping[str, str]) -> Rows:
    begin = since(filters["since"], now=container.now()) if filters.get("since") else None
    entries = container.audit.list(
        subject=filters.get("subject", ""), who=filters.get("who", ""), since=begin, limit=_MOST
    )
    return [audit.entry(entry) for entry in entries]


def _releases(container: "Container", _filters: Mapping[str, str]) -> Rows:
    agents = container.instance_list.agents_by_release()
    return [releases.kept(release, agents.get(release.id, ())) for release in container.releases.list()]


def _images(container: "Container", _filters: Mapping[str, str]) -> Rows:
    return [images.image(image) for image in container.images.list()]


def _cells(container: "Container", _filters: Mapping[str, str]) -> Rows:
    size = container.env.settings.cell_size
    return [cells.cell(row, size=size) for row in container.cells.list("")]


def _pools(container: "Container", _filters: Mapping[str, str]) -> Rows:
    return [cells.unassigned(machine) for machine in container.pool_machines.list(())]


def _backups(container: "Container", _filters: Mapping[str, str]) -> Rows:
    ages = container.backup_rows.ages()
    rows = [backups.age(instance, newest, ages.now) for instance, newest in ages.rows]
    return sorted(rows, key=lambda row: (not row["counts"], -int(str(row["age_s"]))))


def _drills(container: "Container", _filters: Mapping[str, str]) -> Rows:
    service = container.runbook_drills
    return [{**drills.drill(fault, last), "offered": service.can_drill(fault)} for fault, last in service.list()]


def _outdated(container: "Container", _filters: Mapping[str, str]) -> Rows:
    return [rollouts.outdated(instance) for instance in container.outdated.list()]


def _certificates(container: "Container", _filters: Mapping[str, str]) -> Rows:
    now = container.now()
    return [certificates.held(holder, row, now) for holder, row in container.machine_certificates.newest()]


def _tokens(container: "Container", _filters: Mapping[str, str]) -> Rows:
    now, directory = container.now(), container.token_directory
    names = directory.machine_names()
    proxy = [tokens.proxy_token(owner, token, names, now) for owner, token in directory.proxy_tokens(None)]
    models = [tokens.model_token(owner, token, now) for owner, token in directory.model_tokens(None)]
    return sorted([*proxy, *models], key=tokens.by_user)


def _secrets(container: "Container", _filters: Mapping[str, str]) -> Rows:
    now = container.now()
    return [secrets.held_secret(secret, now) for secret in container.checks.held_secrets()]


def _messages(container: "Container", filters: Mapping[str, str]) -> Rows:
    now = container.now()
    records = container.message_directory.list(user=filters.get("user", ""), messenger="", state="", limit=_MOST)
    return [messages.message(record, now) for record in records]


def _requests(container: "Container", filters: Mapping[str, str]) -> Rows:
    rows = container.request_directory.list(user=filters.get("user", ""), state=None, limit=_MOST)
    return [users.request(row) for row in rows]


def _callers(container: "Container", filters: Mapping[str, str]) -> Rows:
    records = container.calling_agents.list(user=filters.get("user", ""), limit=_MOST)
    return [callers.caller(record) for record in records]


def _billing(container: "Container", filters: Mapping[str, str]) -> Rows:
    rows = container.billing_events.list(state=None, user=filters.get("user", ""), limit=_MOST)
    return [billing.event(row) for row in rows]


LISTINGS: Mapping[str, Listing] = {
    listing.name: listing
    for listing in (
        Listing(
            "audit",
            "Audit",
            ("audit", "log"),
            ("at", "who", "action", "subject", "why"),
            _audit,
            ("who", "subject", "since"),
        ),
        Listing(
            "releases",
            "Releases",
            ("release", "list"),
            ("id", "agents", "state", "agent", "created_at", "note", "who"),
            _releases,
            actions=("build-release",),
        ),
        Listing(
            "images",
            "Images",
            ("image", "list"),
            ("name", "id", "created_at"),
            _images,
            actions=("build-image",),
        ),
        Listing("cells", "Cells", ("cell", "list"), ("cell", "region", "plans", "machines", "room", "last_up"), _cells),
        Listing(
            "pools",
            "Warm pools",
            ("pool", "list"),
            ("machine_name", "cell", "plan", "server_type", "status", "ready_at"),
            _pools,
        ),
        Listing("backups", "Backups", ("backup", "list"), ("user", "status", "newest", "age"), _backups),
        Listing("drills", "Drills", ("drill", "list"), ("drill", "runbook", "last_run", "found", "alerts"), _drills),
        Listing(
            "outdated",
            "Outdated agents",
            ("fleet", "outdated"),
            ("user", "release", "rollout", "why", "since"),
            _outdated,
        ),
        Listing(
            "certificates",
            "Certificates of machines",
            ("identity", "list"),
            ("user", "machine_name", "cell", "state", "not_after", "serial"),
            _certificates,
        ),
        Listing(
            "tokens",
            "Tokens",
            ("token", "list"),
            ("user", "purpose", "left", "expires_at", "machine_name", "holder"),
            _tokens,
            actions=("rotate-tokens",),
        ),
        Listing(
            "secrets",
            "Secrets",
            ("secrets", "list"),
            ("name", "home", "is_there", "age", "purpose"),
            _secrets,
            is_served=False,
            actions=("rotate-registry-key",),
        ),
        Listing(
            "messages",
            "Messages (without texts)",
            ("message", "list"),
            ("message", "messenger", "state", "age", "tries", "user_id", "kind", "detail"),
            _messages,
            ("user",),
            is_served=False,
        ),
        Listing(
            "requests",
            "User requests",
            ("user", "request", "list"),
            ("created", "kind", "state", "detail", "code", "operation", "user_id"),
            _requests,
            ("user",),
            is_served=False,
        ),
        Listing(
            "callers",
            "Calling agents",
            ("user", "caller", "list"),
            ("state", "used", "tasks", "open_tasks", "undelivered", "caller", "user_id", "failed_tasks", "created"),
            _callers,
            ("user",),
            is_served=False,
        ),
        Listing(
            "billing",
            "Billing events",
            ("billing", "list"),
            ("event", "type", "subscription", "state", "due", "detail"),
            _billing,
            ("user",),
            is_served=False,
        ),
    )
}
"""By their paths."""

OF_OPERATORS: Mapping[str, Listing] = {name: listing for name, listing in LISTINGS.items() if listing.is_served}
"""Those of the served console."""


def rows(container: "Container", name: str) -> Mapping[str, Any]:
    """The rows of a listing.

    Args:
        name: Of the listing, then ``?`` and its filters as in an address.

    Raises:
        UsageError: There is no such listing, or a filter cannot be read.
    """
    path, _, query = name.partition("?")
    listing = LISTINGS.get(path)
    if listing is None:
        raise UsageError(f"there is no list {path!r}")
    return {"rows": listing.read(container, dict(parse_qsl(query)))}
