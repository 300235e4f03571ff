"""The served console: who gets in with which role, on either database, by a role that reads what pages show."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from starlette.routing import Route

from hermesops.access.sign_in.issuer_client import IssuedTokens
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.console.actions import bulk
from hermesops.console.actions.served import served_actions
from hermesops.console.application import SERVED
from hermesops.console.front import CONTENT_SECURITY_POLICY
from hermesops.console.operators.gate import COOKIE, SIGN_IN_COOKIE
from hermesops.console.operators.roles import role_needed
from hermesops.console.operators.sessions import ASKED_S, IDLE_S, LIFE_S, digest
from hermesops.console.sources import Snapshot, Sources, Topic
from hermesops.console.topics import questions
from hermesops.console.topics.listings import LISTINGS, OF_OPERATORS
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.localcloud.vendors.issuer import OPERATORS, Person
from hermesops.model.access.console_operator import RECENT_S, ConsoleOperator, Role
from hermesops.model.ids import instance_subject
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.rollout.records import RolloutId, RolloutState
from hermesops.store.registry import Registry
from hermesops.store.registry.open import migrate_registry
from hermesops.store.registry.repositories.operator_links import MOST
from hermesops.store.registry.repositories.operator_requests import MOST_EACH
from hermesops.store.registry.schema.role_grants import CONSOLE
from tests.support.fleets.filled_registry import fill
from tests.support.pages.halted_rollout import with_halted_rollout
from tests.support.pages.operators import CHANGE, VISIT, ServedConsole, carrier_of, served_console, working
from tests.support.real.stores.postgresql import as_role, make_role
from tests.support.real.stores.registries import registry_at
from tests.support.rollouts.rows import NEW, OLD

INSTANCES = 5
ACTIONS = [*((action.about.value, action.name) for action in served_actions()), ("instances", "unknown")]
NAMES = {Role.VIEWER: "vera", Role.OPERATOR: "otto", Role.ADMIN: "adele"}
of_sqlite = pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
"""What the database has no part in."""


@pytest.fixture
def registry(registry_url: str) -> Registry:
    """The registry as a worker has it."""
    if registry_url.startswith("postgresql"):
        make_role(registry_url, CONSOLE)
        migrate_registry(registry_url)
    registry = registry_at(registry_url)
    fill(registry, INSTANCES)
    return registry


@pytest.fixture
async def console(registry: Registry, registry_url: str, tmp_path: Path) -> AsyncIterator[ServedConsole]:
    del registry
    async with served_console(as_role(registry_url, CONSOLE), tmp_path / "home") as console:
        yield console


def each_request(registry: Registry) -> list[tuple[str, str]]:
    """Method and path of every route; a change has a path for each action and for one that there is not."""
    known = registry.instances.list()[0].id
    requests = []
    for route in SERVED:
        assert isinstance(route, Route)
        for method in sorted((route.methods or set()) - {"HEAD"}):
            for about, action in ACTIONS if "{action}" in route.path else [("", "")]:
                id_ = known if about in {"", "instances"} else "r1"  # of a rollout or a freeze
                values = {"{about}": about, "{id}": id_, "{action}": action, "{name}": "console.js"}
                path = route.path
                for name, value in values.items():
                    path = path.replace(name, value)
                requests.append((method, path))
    assert len(requests) > 60
    return requests


async def ask(client: httpx.AsyncClient, method: str, path: str) -> httpx.Response:
    headers = CHANGE if method == "POST" else VISIT
    return await client.request(method, path, headers=headers, data={"reason": "x"} if method == "POST" else None)


def is_refused(answer: httpx.Response) -> bool:
    """Whether an answer leads to the sign-in, or refuses, and shows nothing."""
    if answer.status_code == 303:
        return answer.headers["location"].startswith("/console/sign-in?") and not answer.content
    return answer.status_code in {401, 403} and len(answer.content) < 100


async def test_a_viewer_sees_every_page_and_no_change(console: ServedConsole, registry: Registry) -> None:
    vera = await console.signed_in("vera")
    instance = f"/console/instances/{registry.instances.list()[0].id}"
    pages = ["/console/", "/console/instances", "/console/operations", "/console/alerts", "/console/runbooks"]
    with_halted_rollout(registry, "it is so")
    pages += ["/console/rollouts", "/console/rollouts/r1", "/console/approvals", "/console/more"]
    pages += [f"/console/cells/{registry.cells.list()[0].name}", "/console/drift", "/console/jobs"]
    for path in (
        *pages,
        *(f"/console/{name}" for name in OF_OPERATORS),
        instance,
        "/console/instances?q=user1%20cell1",
        f"{instance}/report",
        f"{instance}/timeline",
        "/console/assets/console.js",
    ):
        answer = await vera.get(path)
        assert answer.status_code == 200, (path, answer.text[-600:])
        assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert "/change/" not in answer.text, path
    for name in LISTINGS.keys() - OF_OPERATORS:
        assert (await vera.get(f"/console/{name}")).status_code == 404, name
        async with asyncio.timeout(20):  # a stream has no end
            assert (await vera.get(f"/console/events?kind=listing&name={name}")).status_code == 422, name
        assert f'href="/console/{name}' not in (await vera.get("/console/more")).text
        assert f'href="/console/{name}' not in (await vera.get(instance)).text
    assert "rollout retry r1" in (await vera.get("/console/rollouts/r1")).text
    assert "vera@local.test (viewer)" in (await vera.get("/console/")).text
    otto = await console.signed_in("otto")
    assert "/change/restart" in (await otto.get(instance)).text
    assert 'href="/console/bulk/back-up?' in (await otto.get("/console/instances")).text
    assert "/console/bulk/" not in (await vera.get("/console/instances")).text
    assert 'href="/console/change/start-rollout"' in (await otto.get("/console/rollouts")).text
    shown = (await otto.get("/console/rollouts/r1")).text
    for name in ("pause", "resume", "promote", "retry", "abort", "roll-back"):
        is_offered = name not in {"pause", "resume"}  # the rollout has halted
        assert (f'href="/console/rollouts/r1/change/{name}"' in shown) == is_offered, name


async def test_a_rollout_is_started_paused_and_aborted_by_pages_and_a_worker(
    console: ServedConsole, registry: Registry
) -> None:
    registry.rollout_targets.record_releases({row.id: OLD for row in registry.instances.list()})
    otto = await console.signed_in("otto")
    async with working(carrier_of(console, registry)):
        form = await otto.get("/console/change/start-rollout")
        assert "fill in “Release or agent version”" in form.text
        assert 'name="emergency"' not in form.text
        values = {"release": NEW, "everybody": "on"}
        preview = await otto.get("/console/change/start-rollout", params=values)
        assert "Worst case" in preview.text, preview.text[-700:]
        assert registry.rollouts.list() == ()
        begun = await otto.post("/console/change/start-rollout", data={**values, "reason": "x"}, headers=CHANGE)
        assert begun.status_code == 200, begun.text
        [rollout] = registry.rollouts.list()
        page = f"/console/rollouts/{rollout.id}"
        assert begun.headers["hx-redirect"] == page
        for name, state in (("pause", RolloutState.PAUSED), ("abort", RolloutState.ABORTING)):
            preview = await otto.get(f"{page}/change/{name}")
            assert f"{state.value} after" in preview.text, preview.text[-700:]
            given = await otto.post(f"{page}/change/{name}", data={"reason": "x"}, headers=CHANGE)
            assert (given.status_code, given.headers["hx-redirect"]) == (200, page)
            assert registry.rollouts.state(rollout.id) is state
        refused = await otto.post(f"{page}/change/pause", data={"reason": "x"}, headers=CHANGE)
        assert (refused.status_code, "cannot be paused" in refused.text) == (409, True)
    who = {entry.who for entry in registry.audit.list(subject=f"rollout/{rollout.id}")}
    assert "otto@local.test@oidc:console.test via console" in who


@of_sqlite
async def test_a_form_with_a_value_that_only_commands_take_begins_nothing(
    console: ServedConsole, registry: Registry
) -> None:
    otto = await console.signed_in("otto")
    with_halted_rollout(registry, "it is so")
    async with working(carrier_of(console, registry)):
        data = {"reason": "x", "lose": "on", "typed": "r1"}
        begun = await otto.post("/console/rollouts/r1/change/roll-back", data=data, headers=CHANGE)
    assert begun.status_code == 200
    assert not registry.rollouts.get(RolloutId("r1")).decisions.may_lose


@of_sqlite
async def test_each_route_needs_its_role(console: ServedConsole, registry: Registry) -> None:
    clients = {role: await console.signed_in(name) for role, name in NAMES.items()}
    needed = {request: role_needed(*request) for request in each_request(registry)}
    assert set(needed.values()) == set(Role)
    for (method, path), role in needed.items():
        if path.endswith("/events"):
            continue  # a stream without an end; see below
        for own, client in clients.items():
            if own < role:
                answer = await ask(client, method, path)
                assert (answer.status_code, answer.text) == (403, f"this needs the role {role.word}\n"), (path, own)
            elif method == "GET" and not {"change", "bulk", "answer"} & {*path.split("/")}:  # which ask workers
                assert (await ask(client, method, path)).status_code in {200, 404, 422}, (path, own)
    assert not registry.operator_requests.due()


@dataclass
class Restarts:
    """The command's request for a restart; refused for one user, and slow."""

    registry: Registry
    refused: str

    async def restart(self, user: str, *, reason: str) -> Operation:
        await pause(0.02)
        if user == self.refused:
            raise RefusedError("it is suspended")
        instance = self.registry.instances.find(user)
        subject, intent = instance_subject(instance.id), {"user": user, "reason": reason}
        return self.registry.operations.open(OperationKind.RESTART, subject, intent=intent, instance_id=instance.id)


async def test_a_bulk_action_of_fifty_is_a_row_for_each_and_one_that_is_refused_keeps_none_back(
    registry_url: str, tmp_path: Path
) -> None:
    if registry_url.startswith("postgresql"):
        make_role(registry_url, CONSOLE)
        migrate_registry(registry_url)
    registry = registry_at(registry_url)
    fill(registry, 50)
    rows = registry.instances.list()
    ids, refused = ",".join(row.id for row in rows), rows[7]
    async with served_console(as_role(registry_url, CONSOLE), tmp_path / "home") as console:
        otto, vera = await console.signed_in("otto"), await console.signed_in("vera")
        path = f"/console/bulk/restart?ids={ids}"
        for client, path_, status in ((vera, path, 403), (otto, path.replace("restart", "terminate"), 403)):
            assert (await client.post(path_, data={"reason": "x"}, headers=CHANGE)).status_code == status
        assert (await otto.post(path, headers=CHANGE)).status_code == 422, "it needs a reason"
        beginning = asyncio.ensure_future(otto.post(path, data={"reason": "x"}, headers=CHANGE))

        async def look() -> bool | Pending[bool]:
            queued = len(registry.operator_requests.due())
            return True if queued == MOST_EACH else Pending(str(queued))

        await until(look, what="as many rows as an operator may have", timeout_s=60, every_s=0.1)
        async with working(carrier_of(console, registry, Restarts(registry, refused.title))):
            begun = await beginning
        assert begun.status_code == 200, begun.text
        batch = begun.headers["hx-redirect"]
        query = parse_qs(urlsplit(batch).query)
        opened = registry.operations.list(kind=OperationKind.RESTART)
        assert sorted(query["of"][0].split(",")) == sorted(row.id for row in opened)
        assert (len(opened), query["refused"], "undecided" in query) == (49, [refused.id], False)
        assert len({str(row.intent["reason"]) for row in opened}) == 49, "each names its own request"
        page = (await otto.get(batch)).text
        assert f'href="/console/bulk/restart?ids={refused.id}"' in page
        assert "/console/bulk/" not in (await vera.get(batch)).text


@of_sqlite
async def test_a_bulk_action_that_no_worker_decides_is_unknown_and_not_refused(
    console: ServedConsole, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "_WITHIN_S", 0.5)
    otto, rows = await console.signed_in("otto"), registry.instances.list()
    path = f"/console/bulk/restart?ids={','.join(row.id for row in rows)}"
    begun = await otto.post(path, data={"reason": "x"}, headers=CHANGE)
    query = parse_qs(urlsplit(begun.headers["hx-redirect"]).query)
    assert (sorted(query), query["undecided"][0].split(",")) == (["action", "undecided"], [row.id for row in rows])
    page = (await otto.get(begun.headers["hx-redirect"])).text
    assert ("No worker has decided yet" in page, "Only those that failed" in page) == (True, False)
    assert len(registry.operator_requests.due()) == INSTANCES


async def test_links_are_kept_for_their_operator_alone_by_a_worker(console: ServedConsole, registry: Registry) -> None:
    vera, otto = await console.signed_in("vera"), await console.signed_in("otto")
    async with working(carrier_of(console, registry)):
        for number in range(MOST):
            kept = await vera.post(
                "/console/links", data={"name": f"n{number}", "page": "?health=down"}, headers=CHANGE
            )
            assert (kept.status_code, kept.headers["hx-redirect"]) == (200, "/console/more"), kept.text
        further = {"name": "further", "page": "alerts"}
        refused = await vera.post("/console/links", data=further, headers=CHANGE)
        assert (refused.status_code, "remove one first" in refused.text) == (422, True)
        assert (await otto.post("/console/links", data=further, headers=CHANGE)).status_code == 200
        for name in ("x" * 61, "a\0b", ""):
            assert (await otto.post("/console/links/remove", data={"name": name}, headers=CHANGE)).status_code == 422
        for page in ("https://evil.test/", "//evil.test/", "javascript:x", "alerts?\u202e"):
            answer = await otto.post("/console/links", data={"name": "x", "page": page}, headers=CHANGE)
            assert answer.status_code == 422, page
        assert (await vera.post("/console/links/remove", data={"name": "n0"}, headers=CHANGE)).status_code == 200
        assert (await otto.post("/console/links/remove", data={"name": "n1"}, headers=CHANGE)).status_code == 200
    of_vera, of_otto = (await vera.get("/console/more")).text, (await otto.get("/console/more")).text
    assert 'href="/console/?health=down"' in of_vera
    assert ("n1" in of_vera, ">n0<" in of_vera, "further" in of_vera) == (True, False, False)
    assert ("further" in of_otto, "n1" in of_otto) == (True, False)
    assert [name for name, _ in registry.operator_links.list("otto@local.test")] == ["further"]


@of_sqlite
async def test_a_page_for_which_a_worker_asks_is_shown_to_its_role_with_the_repairs_that_it_may_begin(
    console: ServedConsole, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    repair = Hint(("fleet", "repair", "remove-orphan", "hermes-a"))
    finding = {"severity": "page", "subject": "hermes-a", "cell": "", "kind": "orphan", "seen": "it is there"}
    shape = {
        "findings": [{**finding, "repair": [repair], "otherwise": []}],
        "by_severity": {"page": 1},
        "pages": ["machines/hermes-a/change/remove-orphan"],
        "several": {"bulk/restart?ids=1,2": 2},
    }

    async def drift(_container: object, filters: Mapping[str, str], _offer: object) -> Mapping[str, Any]:
        assert filters == {"where": "cell=cell1"}
        return shape

    monkeypatch.setitem(questions.OF_OPERATORS, "drift", replace(questions.OF_OPERATORS["drift"], ask=drift))
    adele, otto, vera = [await console.signed_in(name) for name in ("adele", "otto", "vera")]
    async with working(carrier_of(console, registry)):
        answers = [
            (await client.get("/console/drift/answer", params={"where": "cell=cell1"})).text
            for client in (adele, otto, vera)
        ]
    assert all("hermesops --env local fleet repair remove-orphan hermes-a" in answer for answer in answers[:2])
    links = [f'href="/console/{page}"' for page in ("machines/hermes-a/change/remove-orphan", "bulk/restart?ids=1,2")]
    assert [[link in answer for link in links] for answer in answers] == [[True, True], [False, True], [False, False]]
    assert ("needs the role operator" in answers[2], "hermes-a" in answers[2]) == (True, False)
    assert "all of them visible" in (await otto.get("/console/drift/answer", params={"where": "x" * 501})).text
    listed = [(await client.get("/console/more")).text for client in (otto, vera)]
    assert ['href="/console/drift"' in text for text in listed] == [True, False]
    assert not [row for row in registry.audit.list() if row.action == "operator_request_decided"]


async def test_steps_of_a_runbook_lead_to_actions_that_the_operator_may_begin(
    console: ServedConsole, registry: Registry
) -> None:
    instance = registry.instances.list()[0]
    page = f'href="/console/instances/{instance.id}'
    for name, may in (("otto", True), ("vera", False)):
        client = await console.signed_in(name)
        text = (await client.get("/console/runbooks/gateway-down", params={"instance": instance.title})).text
        assert (f'{page}/change/restart"' in text, f'{page}"' in text) == (may, True), name
        why = "its steps run with all rights of an operator&#39;s computer"
        assert ("/change/run?" in text, why in text) == (False, True), "workers run no runbook, and why"
    text = (await client.get(f"/console/instances/{instance.id}")).text
    assert f"instance settings {instance.title}" in text
    assert "a request&#39;s row is not sealed" in text
    adele = await console.signed_in("adele")
    left = (await adele.get(f"/console/instances/{instance.id}/change/configure?set=model%3Dx")).text
    assert ("Refused now" in left, "left to its command" in left) == (True, True)


Spoil = Callable[[ServedConsole, httpx.AsyncClient], Awaitable[None]]


async def _none(_console: ServedConsole, client: httpx.AsyncClient) -> None:
    client.cookies.clear()


async def _forged(_console: ServedConsole, client: httpx.AsyncClient) -> None:
    client.cookies.set(COOKIE, "x" * 43, domain="console.test")


async def _too_long(_console: ServedConsole, client: httpx.AsyncClient) -> None:
    client.cookies.set(COOKIE, "x" * 5000, domain="console.test")


async def _old(console: ServedConsole, client: httpx.AsyncClient) -> None:
    """Somebody acts every ten minutes, and the hour is over."""
    for _ in range(6):
        assert (await client.get("/console/runbooks")).status_code == 200
        console.clock.now += LIFE_S / 6


async def _idle(console: ServedConsole, client: httpx.AsyncClient) -> None:
    """The page keeps itself fresh, and nobody acts."""
    fresh = {"sec-fetch-mode": "cors", "sec-fetch-site": "same-origin"}
    for _ in range(3):
        console.clock.now += IDLE_S / 3 - 1
        assert (await client.get("/console/runbooks", headers=fresh)).status_code == 200
    console.clock.now += 3


async def _removed(console: ServedConsole, _client: httpx.AsyncClient) -> None:
    console.operators.clear()
    console.clock.now += ASKED_S


async def _without_group(console: ServedConsole, _client: httpx.AsyncClient) -> None:
    console.operators[:] = [replace(person, groups=("others",)) for person in OPERATORS]
    console.clock.now += ASKED_S


async def _signed_out(_console: ServedConsole, client: httpx.AsyncClient) -> None:
    cookie = client.cookies[COOKIE]
    assert (await client.post("/console/sign-out", headers=CHANGE)).headers["hx-redirect"] == "/console/sign-in"
    assert COOKIE not in client.cookies
    client.cookies.set(COOKIE, cookie, domain="console.test")


async def _stolen(_console: ServedConsole, client: httpx.AsyncClient) -> None:
    client.headers["user-agent"] = "another browser"


SPOILS: Mapping[str, Spoil] = {
    "none": _none,
    "forged": _forged,
    "too long": _too_long,
    "an hour old": _old,
    "idle": _idle,
    "of an operator who was removed": _removed,
    "of an operator without a group": _without_group,
    "signed out": _signed_out,
    "of another browser": _stolen,
}


@of_sqlite
@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
@pytest.mark.parametrize("name", NAMES.values())
async def test_no_route_is_served_in_a_session_that_does_not_count(
    console: ServedConsole, registry: Registry, name: str, spoil: Spoil
) -> None:
    client = await console.signed_in(name)
    assert (await client.get("/console/runbooks")).status_code == 200
    await spoil(console, client)
    for method, path in each_request(registry):
        answer = await ask(client, method, path)
        assert is_refused(answer), (method, path, answer.status_code, answer.text)
    assert not registry.operator_requests.due()


@of_sqlite
@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"aud": "hermes-web"}, "another client"),
        ({"aud": ["hermes-console", "other"]}, "another client"),
        ({"azp": "other"}, "another client"),
        ({"iss": "https://other.test"}, "another issuer"),
        ({"exp": 1}, "expired"),
        ({"nonce": "x"}, "another sign-in"),
        ({"token_use": "access"}, "another client"),
        ({"groups": ["others"]}, "no group"),
        ({"groups": "admins"}, "no group"),
        ({"groups": None}, "no group"),
        ({"email_verified": False}, "not verified"),
        ({"email": "ada@ssh:host"}, "no usable name"),
        ({"email": "a b@local.test"}, "no usable name"),
        ({"email": None}, "no usable name"),
        ({"sub": ""}, "names nobody"),
    ],
)
async def test_a_token_that_names_no_operator_begins_no_session(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch, claims: dict[str, object], words: str
) -> None:
    client, issue = console.client(), console.issuer.id_token

    def issued(person: Person, nonce: str = "") -> str:
        return issue(person, str(claims.get("nonce", nonce)), **{key: claims[key] for key in claims if key != "nonce"})

    monkeypatch.setattr(console.issuer, "id_token", issued)
    answer = await client.get(await console.authorized(client, "adele"))
    assert (answer.status_code, words in answer.text) == (403, True), answer.text
    assert COOKIE not in client.cookies


@of_sqlite
async def test_a_sign_in_belongs_to_the_browser_that_began_it_and_ends_once(console: ServedConsole) -> None:
    first, second = console.client(), console.client()
    back = await console.authorized(first, "adele")
    query = parse_qs(urlsplit(back).query)
    await second.get("/console/sign-in")
    assert (await second.get(back)).status_code == 403, "begun in another browser"
    forged = await first.get(f"/console/sign-in/callback?code={query['code'][0]}&state=other")
    assert (forged.status_code, COOKIE in first.cookies) == (403, False)
    assert SIGN_IN_COOKIE not in first.cookies, "a failed sign-in begins anew"
    back = await console.authorized(first, "adele")
    ended = await first.get(back)
    assert (ended.status_code, ended.headers["location"]) == (303, "/console/")
    for line in ended.headers.get_list("set-cookie"):
        assert {"Path=/", "Secure", "HttpOnly", "SameSite=lax"} <= set(line.split("; ")), line
    assert (await first.get(back)).status_code == 403, "a second time"


@of_sqlite
async def test_a_browser_comes_back_to_the_page_that_it_wanted_and_to_no_other_site(console: ServedConsole) -> None:
    client = console.client()
    led = await client.get("/console/operations")
    assert led.headers["location"] == "/console/sign-in?onward=%2Fconsole%2Foperations"
    pages = {"/console/alerts": "/console/alerts", "https://evil.test/": "/console/", "//x": "/console/"}
    for onward, page in pages.items():
        begun = await client.get("/console/sign-in", params={"onward": onward})
        assert begun.status_code == 303
        sign_in = console.gate.sessions._begun(client.cookies[SIGN_IN_COOKIE])
        assert sign_in is not None
        assert sign_in.onward == page


@of_sqlite
@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("//[", 404),
        ("/console/%2e%2e/api", 404),
        ("/console/sign-in?" + "a=1&" * 20, 400),
        ("/console/sign-in/callback?" + "a=1&" * 20, 400),
        (f"/console/sign-in/callback?code={'x' * 2049}&state=x", 400),
        ("/console/sign-in/callback", 403),
        ("/console/sign-in/callback?code=%ff&state=%00", 400),
        ("/console/sign-in/x", 303),
    ],
)
async def test_addresses_that_no_page_has_are_refused(console: ServedConsole, target: str, status: int) -> None:
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"console.test"), (b"cookie", b"a; =; __Host-hermes-console=\xff")],
    }
    sent: list[Any] = []

    async def send(message: Any) -> None:  # noqa: ANN401 - as ASGI has it
        sent.append(message)

    await console.app(scope, asyncio.Event().wait, send)  # type: ignore[arg-type]  # nothing is read
    assert sent[0]["status"] == status


@of_sqlite
async def test_another_website_and_another_name_get_nothing(console: ServedConsole, registry: Registry) -> None:
    otto = await console.signed_in("otto")
    change = f"/console/instances/{registry.instances.list()[0].id}/change/restart"
    assert (await otto.get("/console/", headers={"host": "rebound.test"})).status_code == 421
    for headers in (
        {"origin": "https://other.test"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ):
        assert (await otto.get("/console/", headers=headers)).status_code == 403, headers
    assert (await otto.get("/console/", headers={"sec-fetch-site": "cross-site"})).status_code == 200, "a link"
    for lacking in CHANGE:
        headers = {name: value for name, value in CHANGE.items() if name != lacking}
        headers |= {"sec-fetch-site": "cross-site"} if lacking == "sec-fetch-site" else {}
        assert (await otto.post(change, data={"reason": "x"}, headers=headers)).status_code == 403, lacking
    assert (await otto.get("/console/../api")).status_code in {303, 404}
    assert (await otto.get("/other")).status_code == 404
    assert not registry.operator_requests.due()


@of_sqlite
async def test_the_issuers_word_is_asked_for_again_and_a_lower_role_counts_at_once(
    console: ServedConsole, registry: Registry
) -> None:
    adele = await console.signed_in("adele")
    console.operators[:] = [replace(person, groups=("viewers",)) for person in OPERATORS]
    console.clock.now += ASKED_S - 1
    assert "(admin)" in (await adele.get("/console/")).text
    console.clock.now += 1
    answers = await asyncio.gather(*(adele.get("/console/") for _ in range(5)))
    assert all("(viewer)" in answer.text for answer in answers), "one renewal for all of them"
    path = f"/console/instances/{registry.instances.list()[0].id}/change/restart"
    assert (await adele.post(path, data={"reason": "x"}, headers=CHANGE)).status_code == 403


@of_sqlite
async def test_what_destroys_leads_to_a_sign_in_that_the_issuer_asks_for_anew(
    console: ServedConsole, registry: Registry
) -> None:
    adele, otto = await console.signed_in("adele"), await console.signed_in("otto")
    instance = f"/console/instances/{registry.instances.list()[0].id}"
    console.gate.__dict__["clock"] = lambda: time.time() + RECENT_S + 1
    terminate = f"{instance}/change/terminate"
    refused = await adele.post(terminate, data={"reason": "x", "typed": "user0"}, headers=CHANGE)
    assert (refused.status_code, "a sign-in of the last 10 minutes" in refused.text) == (401, True)
    assert not registry.operator_requests.due()
    assert (await otto.post(terminate, data={"reason": "x"}, headers=CHANGE)).status_code == 403, "not his to do"
    assert (await adele.get(instance)).status_code == 200, "reading goes on"
    sign_in = urlsplit(refused.headers["hx-redirect"])
    query = {"anew": ["on"], "onward": [terminate]}
    assert (sign_in.path, parse_qs(sign_in.query)) == ("/console/sign-in", query)
    begun = await adele.get(refused.headers["hx-redirect"])
    query = parse_qs(urlsplit(begun.headers["location"]).query)
    assert (query["prompt"], query["max_age"]) == (["login"], ["600"])
    before = adele.cookies[COOKIE]
    ended = await adele.get(await console.authorized(adele, "adele"))
    assert ended.status_code == 303
    assert adele.cookies[COOKIE] != before
    assert not console.gate.sessions.is_open(digest(before)), "the session before has ended"
    del console.gate.__dict__["clock"]
    asking = asyncio.ensure_future(adele.post(terminate, data={"reason": "x", "typed": "user0"}, headers=CHANGE))

    async def look() -> str | Pending[str]:
        due = registry.operator_requests.due()
        return due[0].action if due else Pending("not yet")

    assert await until(look, what="the request is there", timeout_s=30, every_s=0.05) == "terminate"
    await cancel(asking)


@of_sqlite
async def test_an_issuer_that_is_away_lets_nobody_in_and_ends_no_session(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    vera = await console.signed_in("vera")
    console.clock.now += ASKED_S

    async def away(_tokens: IssuedTokens) -> IssuedTokens:
        raise UnavailableError("the issuer of tokens does not answer")

    with monkeypatch.context() as patched:
        patched.setattr(console.gate.sessions._issuer, "refreshed", away)
        assert (await vera.get("/console/")).status_code == 503
    assert (await vera.get("/console/")).status_code == 200


@of_sqlite
async def test_a_refresh_token_that_took_anothers_place_is_kept_while_the_issuers_keys_are_away(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    vera = await console.signed_in("vera")
    console.clock.now += ASKED_S
    sessions = console.gate.sessions

    async def away(_token: str) -> ConsoleOperator:
        raise UnavailableError("the issuer did not give its keys")

    # Each refresh token of the issuer counts once.
    with monkeypatch.context() as patched:
        patched.setattr(sessions._tokens, "operator_of", away)
        assert (await vera.get("/console/runbooks")).status_code == 503
    assert (await vera.get("/console/runbooks")).status_code == 200


@of_sqlite
async def test_a_page_is_given_whole_though_the_issuer_is_to_be_asked_again_meanwhile(
    console: ServedConsole, monkeypatch: pytest.MonkeyPatch
) -> None:
    vera = await console.signed_in("vera")
    show = Sources.snapshot

    async def slow(sources: Sources, topic: Topic) -> Snapshot:
        console.clock.now += ASKED_S
        return await show(sources, topic)

    monkeypatch.setattr(Sources, "snapshot", slow)
    response = await vera.get("/console/instances")
    assert (response.status_code, "</html>" in response.text) == (200, True)


@of_sqlite
async def test_an_operator_has_a_few_sessions_and_the_oldest_ends(console: ServedConsole) -> None:
    clients = [await console.signed_in("vera") for _ in range(6)]
    otto = await console.signed_in("otto")
    statuses = [(await client.get("/console/runbooks")).status_code for client in (*clients, otto)]
    assert statuses == [303, 200, 200, 200, 200, 200, 200]


@of_sqlite
@pytest.mark.parametrize("is_removed", [False, True])
async def test_a_stream_ends_with_its_session(console: ServedConsole, *, is_removed: bool) -> None:
    vera = await console.signed_in("vera")
    sent: asyncio.Queue[Any] = asyncio.Queue()
    request = vera.build_request("GET", "/console/events?kind=instances", headers={"sec-fetch-mode": "cors"})
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/console/events",
        "query_string": b"kind=instances",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
    }

    async def connected() -> dict[str, Any]:
        """The browser stays."""
        await asyncio.Event().wait()
        return {}

    streaming = asyncio.ensure_future(console.app(scope, connected, sent.put))
    async with asyncio.timeout(30):
        assert (await sent.get())["status"] == 200
        assert (await sent.get())["body"]
        if is_removed:
            console.clock.now += ASKED_S
        else:
            console.gate.sessions.end(vera.cookies[COOKIE])
        await streaming
    last = [sent.get_nowait() for _ in range(sent.qsize())][-1]
    assert (last["body"], last["more_body"]) == (b"", False)
