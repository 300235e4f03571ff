"""Pages over a real registry: what is shown, to whom, and that every text in them is data."""

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

import httpx
import pytest
from starlette.routing import Route

from hermesops.agents.rollout.records.events import Recorded, RolloutStarted, to_row
from hermesops.agents.rollout.steps.stage_entry import NEEDS_APPROVAL
from hermesops.app import Container
from hermesops.console.actions.action import About, ActionRequest
from hermesops.console.actions.callers import RevokeCallerWork
from hermesops.console.actions.table import ACTIONS, subject_of
from hermesops.console.application import ROUTES
from hermesops.console.front import CONTENT_SECURITY_POLICY, LARGEST_BODY
from hermesops.console.saved_links import MOST
from hermesops.console.topics import operations
from hermesops.console.topics.listings import LISTINGS
from hermesops.console.topics.questions import QUESTIONS
from hermesops.model.chat.caller import CallerState
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import instance_subject
from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.rollout.records import RolloutId, RolloutState
from hermesops.observability.telemetry.alerts.shown_alerts import Alerts, Steps
from hermesops.store.calling_rows.callers import AgentCallers
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.registry import Registry
from tests.support.fakes.monitoring import Answer, FakeMonitoring, alert, fake_monitoring, matrix, silence
from tests.support.fleets.filled_registry import beat, fill
from tests.support.hostile.agents.hostile_moods import ESCAPES
from tests.support.pages.console import AUTHORITY, OWN, console_client, empty_container, foreign
from tests.support.pages.halted_rollout import with_halted_rollout
from tests.support.real.stores.registries import KEYS, TurnedClock
from tests.support.rollouts.rows import AT, ROLLOUT, target_of

if TYPE_CHECKING:
    from hermesops.app.connected import Connected

INSTANCES = 50
HOSTILE = f"<script>alert(1)</script><img src=x onerror=alert(1)>\"'><a href=javascript:alert(1)>{{{{7*7}}}}{ESCAPES}"
NUL = "\0"
WRITTEN = HOSTILE.replace(NUL, "")
"""As rows have it: PostgreSQL's texts have no NUL."""

LISTS = tuple(f"/console/{name}" for name in ("instances", "operations", "rollouts", "alerts"))
WORDS = "words-of-a-user"
CALLER = "00000000-0000-4000-8000-000000000001"
"""An id that no caller has."""

SEALED_KEY = "k" * 43
"""The key of each instance's API that ``fill`` writes."""


@pytest.fixture
def container(tmp_path: Path, registry: Registry) -> Container:
    """A fleet with a halted rollout and a freeze, whose texts are hostile, in either database."""
    container = empty_container(tmp_path)
    container.__dict__["registry"] = registry
    fill(registry, INSTANCES)
    with_halted_rollout(registry, WRITTEN)
    container.freezes.set(begins_at=None, ends_at=None, reason=WRITTEN)
    return container


@pytest.fixture
async def client(container: Container) -> AsyncIterator[httpx.AsyncClient]:
    async with console_client(container) as client:
        yield client


@pytest.fixture
async def monitoring(container: Container) -> AsyncIterator[FakeMonitoring]:
    """Monitoring of the container's environment."""
    async with fake_monitoring() as monitoring:
        alerts = Alerts(container.registry, monitoring.client, lambda _: Steps.NONE)
        container.__dict__["monitoring"] = SimpleNamespace(is_known=True, client=lambda: None)
        container.__dict__["alerts"] = lambda: alerts
        yield monitoring


def paths_of(container: Container) -> list[str]:
    """Every page that the console has."""
    instance = f"/console/instances/{container.instance_list.read()[0].instance.id}"
    operations = [f"/console/operations/{row.id}" for row in container.operation_directory.list(ended=True)]
    rollouts = [f"/console/rollouts/{row.id}" for row in container.rollouts.list()]
    freezes = [f"/console/freezes/{row.id}" for row in container.freezes.list()]
    runbook = ["/console/runbooks/gateway-down"]
    subjects = {
        About.INSTANCE: [instance],
        About.ROLLOUT: rollouts,
        About.OPERATION: operations,
        About.ALERT: ["/console/alerts/GatewayDown"],
        About.FREEZE: freezes,
        About.FLEET: ["/console"],
        About.RUNBOOK: runbook,
        About.CELL: ["/console/cells/cell1"],
        About.MACHINE: ["/console/machines/hermes-local-a"],
        About.JOB: ["/console/jobs/pools"],
        About.DRILL: ["/console/drills/gateway-stopped"],
        About.SILENCE: ["/console/silences/ab12"],
        About.RELEASE: ["/console/releases/none"],
        About.CALLER: [f"/console/callers/{CALLER}"],
    }
    actions = [f"{of}/change/{action.name}" for action in ACTIONS for of in subjects[action.about]]
    gaps = [f"/console/plots/gaps/{row.id}" for row in container.operation_directory.list(ended=True)]
    return [
        *("/console/", *LISTS, "/console/runbooks", "/console/plots/health", "/console/plots/cost", *gaps),
        *(instance, f"{instance}/report", f"{instance}/timeline", *operations, *actions),
        *rollouts,
        *("/console/more", "/console/approvals", "/console/batch", "/console/bulk/restart"),
        *(f"/console/{name}" for name in LISTINGS),
        *(f"/console/{name}{part}" for name in QUESTIONS for part in ("", "/answer")),
        *("/console/releases/none", "/console/cells/cell1", "/console/cells/cell1/preview", "/console/runs/none"),
        *(f"/console/runbooks/{name}" for name in ("gateway-down", "rollout-halted")),
    ]


def test_the_list_of_pages_has_each_route(container: Container) -> None:
    pages = [route for route in ROUTES if isinstance(route, Route) and "GET" in (route.methods or ())]
    others = {"/console/assets/{name}", "/console/events"}
    paths = paths_of(container)
    unlisted = {route.path for route in pages if not any(route.path_regex.fullmatch(path) for path in paths)}
    assert unlisted == others
    kinds = {path.split("/")[2] for path in paths if "/change/" in path} - {"change"}
    assert kinds == {action.about.value for action in ACTIONS} - {"fleet"}


async def test_texts_of_machines_and_addresses_are_data_on_every_page(
    container: Container, client: httpx.AsyncClient, monitoring: FakeMonitoring
) -> None:
    registry, instance = container.registry, container.instance_list.read()[0].instance
    operation = registry.operations.open(
        OperationKind.RESTART,
        instance_subject(instance.id),
        intent={"user": WRITTEN, "reason": WRITTEN, "settings": {WRITTEN: WRITTEN, "model": ""}},
        instance_id=instance.id,
    )
    registry.operations.record_step(operation.id, WRITTEN)
    registry.operations.record_problem(operation.id, WRITTEN)
    registry.audit.append("noted", instance_subject(instance.id), why=WRITTEN, after={"text": WRITTEN})
    hostile = alert("<b>Hostile</b>", instance_id=instance.id, cell=HOSTILE, text=HOSTILE)
    hostile["annotations"] = {"summary": HOSTILE, "figure": HOSTILE, "runbook_url": f"runbooks/{HOSTILE}.md"}
    monitoring.answers["GET /alertmanager/api/v2/alerts"] = Answer([hostile])
    matchers = [{"name": HOSTILE, "value": HOSTILE, "isRegex": False, "isEqual": True}]
    muted = {**silence("ab12", comment=HOSTILE), "createdBy": HOSTILE, "matchers": matchers}
    monitoring.answers["GET /alertmanager/api/v2/silences"] = Answer([muted, {**muted, "id": HOSTILE}])
    pages = [(path, await client.get(path)) for path in paths_of(container)]
    pages += [
        (path, await client.get(f"{path}?{name}={quote(HOSTILE.replace(NUL, ''))}"))
        for path in ("/console/", *LISTS)
        for name in ("q", "where", "health", "page")
    ]
    pages += [(path, await client.get(f"{path}{quote('<script>')}")) for path in paths_of(container)]
    assert [path for path, response in pages if response.status_code not in {200, 404, 422}] == []
    assert {path: foreign(response.text) for path, response in pages if foreign(response.text)} == {}
    shown = "".join(response.text for _, response in pages)
    assert "&lt;script&gt;alert(1)" in shown
    assert "{{7*7}}" in shown
    assert r"\u202egpj.exe" in shown


async def test_no_page_has_what_users_say_or_a_secret(container: Container, client: httpx.AsyncClient) -> None:
    instance = container.instance_list.read()[0].instance
    incoming = IncomingMessages(container.registry._database, KEYS)
    incoming.add(Update(Messenger.TELEGRAM, "1", IncomingKind.MESSAGE, "7", "7", text=WORDS, display=WORDS))
    [message] = incoming.received()
    incoming.queue(message.id, instance.user_id, instance.id)
    pages = {path: (await client.get(path)).text for path in paths_of(container)}
    assert "message" in pages[f"/console/instances/{instance.id}/timeline"]
    assert [path for path, text in pages.items() if WORDS in text or SEALED_KEY in text] == []


async def test_nobody_without_the_cookie_is_answered_and_no_foreign_page_changes_something(
    container: Container, client: httpx.AsyncClient
) -> None:
    change = next(path for path in paths_of(container) if path.endswith("/change/restart"))
    cookie, before = dict(client.cookies), container.operation_directory.list(ended=True)
    for path in (*paths_of(container), "/console/assets/console.js", "/console/events?kind=fleet"):
        client.cookies.clear()
        assert (await client.get(path)).status_code == 403, path
        client.cookies.update(cookie)
        assert (await client.get(path, headers={"host": "rebound.example:4711"})).status_code == 421, path
        assert (await client.get(path, headers={"origin": "https://other.example"})).status_code == 403, path
    refused = {
        "another website": {"origin": "https://other.example", "hx-request": "true"},
        "no origin": {"hx-request": "true"},
        "a form": {"origin": f"http://{AUTHORITY}"},
    }
    for name, headers in refused.items():
        assert (await client.post(change, data={"reason": "x"}, headers=headers)).status_code == 403, name
    assert (await client.post(change, content=b"x" * (LARGEST_BODY + 1), headers=OWN)).status_code == 413
    for reason in (b"reason=%ff\xff", b"reason=a%00b", b"reason=%e2%80%ae", b"reason=", b"reason=" + b"x" * 501):
        assert (await client.post(change, content=reason, headers=OWN)).status_code == 422, reason
    for path in ("/console/?q=%00", "/console/instances/%00", "/console/events?kind=instance&name=%00"):
        assert (await client.get(path)).status_code == 400, path
    assert (await client.put(change, headers=OWN)).status_code == 405
    assert container.operation_directory.list(ended=True) == before


async def test_each_response_has_the_policy_and_stays_in_no_cache(client: httpx.AsyncClient) -> None:
    for path in ("/console/", "/console/nowhere", "/console/assets/console.css", "/console/instances?page=0", "/x"):
        headers = (await client.get(path)).headers
        assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY, path
        assert headers["cache-control"] == "no-store", path
        assert headers["x-content-type-options"] == "nosniff", path


async def test_filters_of_the_address_choose_the_rows(client: httpx.AsyncClient) -> None:
    async def users(query: str) -> list[str]:
        text = (await client.get(f"/console/instances?{query}")).text
        return re.findall(r'id="row-[^"]*" [^>]*>([^<]*)<', text)

    assert len(await users("")) == INSTANCES
    assert await users("q=USER7") == ["user7"]
    assert len(await users("where=cell%3Dcell2")) == INSTANCES - 40
    assert await users("where=user%3Duser3&q=nothing") == []
    assert await users("q=user7%00") == await users("q=user%25") == []
    assert await users("q=user7%20cell1") == ["user7"]
    assert (await client.get(f"/console/instances?q={'x+' * 9}")).status_code == 422
    refused = await client.get("/console/?where=colour%3Dred")
    assert (refused.status_code, "there is no field" in refused.text) == (422, True)


async def test_a_view_is_saved_by_a_name_and_forgotten(container: Container, client: httpx.AsyncClient) -> None:
    filtered = (await client.get("/console/instances?where=cell%3Dcell2&q=user4")).text
    assert 'name="page" value="instances?where=cell%3Dcell2&amp;q=user4"' in filtered
    assert 'name="page"' not in (await client.get("/console/instances")).text
    form = {"name": " my  cell<b>", "page": "instances?where=cell%3Dcell2&q=user4"}
    kept = await client.post("/console/links", data=form, headers=OWN)
    assert (kept.status_code, kept.headers["hx-redirect"]) == (200, "/console/more")
    more = (await client.get("/console/more")).text
    assert 'href="/console/instances?where=cell%3Dcell2&amp;q=user4">my cell&lt;b&gt;<' in more
    assert foreign(more) == []
    for wrong in (
        {"name": "x", "page": "https://other.example/"},
        {"name": "x", "page": "//other.example"},
        {"name": "x", "page": "../other"},
        {"name": "", "page": ""},
        {"name": "x" * 61, "page": ""},
        {"name": "\u202e", "page": ""},
    ):
        assert (await client.post("/console/links", data=wrong, headers=OWN)).status_code == 422, wrong
    for number in range(MOST - 1):
        assert (await client.post("/console/links", data={"name": str(number)}, headers=OWN)).status_code == 200
    assert (await client.post("/console/links", data={"name": "one more"}, headers=OWN)).status_code == 422
    assert (await client.post("/console/links/remove", data={"name": "my cell<b>"}, headers=OWN)).status_code == 200
    assert "my cell" not in (await client.get("/console/more")).text
    [file] = container.env.folder.glob("console-links.json")
    assert file.stat().st_mode & 0o077 == 0
    for damaged in ("no json", "[]", '{"x": "javascript:alert(1)", "y": 7}'):
        file.write_text(damaged)
        assert "Saved views" not in (await client.get("/console/more")).text, damaged


async def test_a_list_has_pages_of_a_hundred(tmp_path: Path) -> None:
    container = empty_container(tmp_path / "many")
    fill(container.registry, 201)
    async with console_client(container) as client:
        for number, count in ((1, 100), (2, 100), (3, 1), (9, 1)):
            text = (await client.get(f"/console/instances?page={number}")).text
            assert text.count('id="row-') == count, number
        for text in ("0", "-1", "x", "٣", "9" * 40):
            assert (await client.get("/console/instances", params={"page": text})).status_code == 422, text


async def test_a_large_fleet_is_counted_and_its_first_are_named(tmp_path: Path) -> None:
    container = empty_container(tmp_path / "large")
    fill(container.registry, 8100)
    async with console_client(container) as client:
        page = (await client.get("/console/")).text
        assert page.count('id="row-') == 100
        assert page.count('id="cell-') == 200
        assert all(text in page for text in ("8100 unknown", "All 8100", "3 more cells"))
        matching = (await client.get("/console/?q=user809")).text
        assert matching.count('id="row-') == 11
        assert 'id="row-' not in (await client.get("/console/?health=down")).text
        assert (await client.get("/console/?health=ill")).status_code == 422
        beat(container.registry, silent_every=40)
        page = (await client.get("/console/?where=cell%3Dcell7")).text
        assert ('In trouble <span class="number">1<' in page, page.count('id="row-')) == (True, 1)


async def test_nothing_is_called_well_that_is_not_known(client: httpx.AsyncClient, monitoring: FakeMonitoring) -> None:
    monitoring.answers["GET /alertmanager/api/v2/alerts"] = Answer(b"no", 503)
    fleet = (await client.get("/console/")).text
    assert 'class="well"' not in fleet
    assert f"{INSTANCES} instances with unknown health" in fleet
    assert "Open alerts are unknown" in fleet
    assert "Alerts are unknown" in (await client.get("/console/alerts")).text


async def test_an_alert_leads_to_its_runbook_and_the_instance_in_trouble_comes_first(
    container: Container, client: httpx.AsyncClient, monitoring: FakeMonitoring
) -> None:
    instance = container.instance_list.read()[7].instance
    firing = alert("GatewayDown", instance_id=instance.id)
    firing["annotations"] = {"summary": "no answer", "figure": "down", "runbook_url": "runbooks/gateway-down.md"}
    monitoring.answers["GET /alertmanager/api/v2/alerts"] = Answer([firing])
    fleet = (await client.get("/console/")).text
    assert fleet.index(f'id="row-{instance.id}"') < fleet.index("<h2>Unknown")
    assert 'href="/console/alerts?q=GatewayDown"' in fleet
    assert f'href="/console/instances/{instance.id}/change/restart"' in fleet
    alerts = (await client.get("/console/alerts")).text
    assert 'href="/console/runbooks/gateway-down"' in alerts
    assert f'href="/console/instances/{instance.id}"' in alerts
    runbook = (await client.get("/console/runbooks/GatewayDown")).text
    assert "The gateway of an agent is down" in runbook
    assert 'href="/console/runbooks/turns-failing-burn"' in runbook
    assert foreign(runbook) == []


async def test_a_silence_shows_the_open_alerts_that_it_takes(
    container: Container, client: httpx.AsyncClient, monitoring: FakeMonitoring
) -> None:
    rows = container.registry.instances.list()
    monitoring.answers["GET /alertmanager/api/v2/alerts"] = Answer(
        [alert("GatewayDown", instance_id=row.id) for row in rows[:3]] + [alert("CellLost", cell="cell1")]
    )
    rules = [{"name": "GatewayDown"}, {"name": "CellLost"}]
    monitoring.answers["GET /prometheus/api/v1/rules"] = Answer(
        {"status": "success", "data": {"groups": [{"rules": rules}]}}
    )
    path, where = "/console/change/silence", {"where": "alert=GatewayDown"}
    assert (await client.get(path, params=where)).text.count("<li>GatewayDown user") == 3
    of_one = (await client.get(path, params={**where, "instance": "user1"})).text
    assert (of_one.count("<li>GatewayDown user1:"), of_one.count("<li>")) == (1, 1)
    assert "mutes the whole fleet" in (await client.get(path, params={"where": "severity=page"})).text
    assert (
        "hermesops alert silence --where alert=GatewayDown --reason WHY" in (await client.get(path, params=where)).text
    )
    assert [
        question for question in monitoring.asked if question.method == "POST" and "silences" in question.path
    ] == []


async def test_plots_are_of_what_monitoring_has(
    container: Container, client: httpx.AsyncClient, monitoring: FakeMonitoring
) -> None:
    assert "there is no monitoring here" in (await client.get("/console/plots/cost")).text
    instance = container.instance_list.read()[0].instance
    operation = container.registry.operations.open(
        OperationKind.RESTART, instance_subject(instance.id), intent={}, instance_id=instance.id
    )
    container.__dict__["monitoring"] = SimpleNamespace(is_known=True, client=lambda: monitoring.client)
    now = container.now().timestamp()
    lines = [({"condition": name}, [(now - 1200, 7), (now - 600, 3)]) for name in ("healthy", "down", HOSTILE)]
    monitoring.answers["POST /prometheus/api/v1/query_range"] = matrix(*lines)
    health = (await client.get("/console/plots/health")).text
    assert (health.count("<polyline"), foreign(health)) == (2, [])
    assert health.index("down") < health.index("healthy")
    assert "now 3, highest 7" in health
    monitoring.answers["POST /prometheus/api/v1/query_range"] = matrix(({}, [(now - 15, 1), (now, 0)]))
    assert "unanswered for about 15 s" in (await client.get(f"/console/plots/gaps/{operation.id}")).text
    monitoring.answers["POST /prometheus/api/v1/query_range"] = Answer(b"no", 503)
    assert "Unknown: " in (await client.get(f"/console/plots/gaps/{operation.id}")).text
    assert (await client.get("/console/plots/health")).text == health, "asked once a minute"


async def test_an_action_that_destroys_something_has_its_subject_typed_and_values_are_bounded(
    container: Container, client: httpx.AsyncClient
) -> None:
    before = container.operation_directory.list(ended=True)
    instance = f"/console/instances/{container.instance_list.read()[0].instance.id}"
    for path, form, words in (
        (f"{instance}/change/terminate", {"reason": "x"}, "type user0 to confirm"),
        (f"{instance}/change/terminate", {"reason": "x", "typed": "user1"}, "type user0 to confirm"),
        (f"{instance}/change/restore", {"reason": "x", "typed": "user"}, "type user0 to confirm"),
        ("/console/rollouts/r1/change/roll-back", {"reason": "x"}, "type r1 to confirm"),
        (f"{instance}/change/terminate", {"typed": "user0"}, "say why"),
        (f"{instance}/change/resize", {"reason": "x"}, "missing"),
        (f"{instance}/change/resize", {"reason": "x", "plan": "huge"}, "one of light, heavy"),
        (f"{instance}/change/suspend", {"reason": "x", "machine": "x" * 501}, "at most 500"),
        ("/console/bulk/restart", {"reason": " "}, "say why"),
        (f"/console/bulk/restart?ids={','.join(['x'] * 51)}", {"reason": "x"}, "at most 50"),
    ):
        response = await client.post(path, data=form, headers=OWN)
        assert (response.status_code, words in response.text) == (422, True), (path, form, response.text)
    for path in ("/console/bulk/terminate", "/console/bulk/nowhere", "/console/fleet/x/change/nowhere"):
        assert (await client.post(path, data={"reason": "x"}, headers=OWN)).status_code == 404, path
    assert container.operation_directory.list(ended=True) == before


async def test_a_rollout_shows_its_gates_with_limits_its_agents_and_its_actions(client: httpx.AsyncClient) -> None:
    page = (await client.get("/console/rollouts/r1")).text
    assert all(text in page for text in ("halted", "stops at", "failures", "0 of 1", "batch ended", 'id="do-retry"'))
    assert len(re.findall(r'id="target-[^"]*"', page)) == 2
    assert 'href="/console/rollouts/r1"' in (await client.get("/console/rollouts")).text
    retry = (await client.get("/console/rollouts/r1/change/retry")).text
    assert "halted now, running after" in retry
    assert "hermesops rollout retry r1 --reason WHY" in retry
    assert "cannot be paused" in (await client.get("/console/rollouts/r1/change/pause")).text


async def test_a_stage_that_waits_for_a_second_operator_shows_the_command_that_signs(
    container: Container, client: httpx.AsyncClient
) -> None:
    ids = [row.id for row in container.registry.instances.list()[2:4]]
    waiting = replace(ROLLOUT, id=RolloutId("r2"), state=RolloutState.PAUSED, reason=f"stage 2 {NEEDS_APPROVAL}")
    targets = [target_of(ids[0]), target_of(ids[1], 1, stage=1)]
    container.registry.rollouts.add(waiting, targets, to_row(Recorded(AT, RolloutStarted("x"))))
    sign = re.compile(r"hermesops rollout approve r2 --stage \d --reason WHY")
    for path in ("/console/rollouts/r2", "/console/approvals"):
        assert sign.search((await client.get(path)).text), path
    assert "approve" not in {action.name for action in ACTIONS}, "a page has no key of a second operator"


async def test_a_calling_agents_key_is_revoked_by_its_row(container: Container, client: httpx.AsyncClient) -> None:
    instance = container.instance_list.read()[0].instance
    rows = AgentCallers(container.registry._database, KEYS)
    caller, _ = rows.add(
        instance.user_id, instance.id, "1", WORDS, name=WORDS, push_hosts=[f"{WORDS}.example"], may_approve=False
    )
    assert caller is not None
    path = f"/console/callers/{caller.id}/change/revoke"
    listed, preview = (await client.get("/console/callers")).text, (await client.get(path)).text
    assert (f'href="{path}"' in listed, "0 of its 0 tasks" in preview) == (True, True)
    assert f"hermesops user caller revoke {caller.id} --reason WHY" in preview
    subject = await subject_of(container, About.CALLER, caller.id)
    connected = cast("Connected", SimpleNamespace(container=container))
    begun = await RevokeCallerWork().begin(connected, ActionRequest(subject, reason="its host is away"))
    assert begun.page == subject.page
    [record] = container.calling_agents.list()
    assert record.state is CallerState.REVOKED
    of_user = {"user": instance.user_id}
    listed, preview = (await client.get("/console/callers", params=of_user)).text, (await client.get(path)).text
    assert (f'href="{path}"' in listed, "revoked already" in preview, WORDS in listed + preview) == (False, True, False)


async def test_an_operation_that_has_not_ended_is_listed_however_many_have(
    container: Container, client: httpx.AsyncClient, clock: TurnedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operations, "_LISTED", 2)
    registry, instances = container.registry, [row.instance for row in container.instance_list.read()[:6]]

    def opened(instance: Instance, kind: OperationKind) -> Operation:
        return registry.operations.open(kind, instance_subject(instance.id), intent={}, instance_id=instance.id)

    stuck = [opened(instance, OperationKind.RESTART) for instance in instances[:3]]
    for instance in instances[3:]:
        clock.turn(1)
        registry.operations.finish(opened(instance, OperationKind.REBOOT).id, OperationStatus.DONE, "")
    page = (await client.get("/console/operations")).text
    running, _, ended = page.partition("<h2>Ended")
    assert (running.count('id="operation-'), ended.count('id="operation-')) == (2, 2)
    assert "2 older: " in running, "one is of the rollout"
    assert not any(f'id="operation-{operation.id}"' in ended for operation in stuck)


async def test_a_list_is_that_of_its_command(container: Container, client: httpx.AsyncClient) -> None:
    container.registry.audit.append("noted", "instance/1", why="by nobody", after={})
    page = (await client.get("/console/audit", params={"subject": "instance/1"})).text
    assert page.count('data-label="At"') == 1
    assert "hermesops audit log --subject instance/1" in page
    assert (await client.get("/console/audit", params={"since": "yesterday"})).status_code == 422
    assert (await client.get("/console/cells")).text.count('href="/console/cells/') == 2
