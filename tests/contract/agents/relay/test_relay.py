"""The relay over real TLS: who may call, what reaches an agent, what comes back, and what of it anybody learns."""

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hermesops.access.pki.callers import Callers
from hermesops.access.pki.certificates import Certificates
from hermesops.access.pki.service import DataKeys, PlatformService
from hermesops.agents.relay.places import Most, Places
from hermesops.agents.relay.routes import UNTIL
from hermesops.agents.relay.serve import bounds_of
from hermesops.base.waiting import Pending, until
from hermesops.errors import UnavailableError
from hermesops.model.access.certificate import Caller as HeldCaller
from hermesops.model.access.token import PLATFORM
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import MachineId
from hermesops.programs.node.system import openssl
from hermesops.serving.listener import Bounds
from tests.support.fakes.credentials import authority_in
from tests.support.real.relay import LIFE, TOKEN, Caller, KindAgent, RelayWorld, Said, kind_agent, relaying

pytestmark = pytest.mark.turns(13)

CHAT = "POST /agents/ada/v1/chat/completions"
HEALTH = "GET /agents/ada/health"
SAID = b'{"messages": [{"role": "user", "content": "canary-of-a-user"}]}'


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RelayWorld]:
    async with relaying(tmp_path) as relay_world:
        yield relay_world


@pytest.fixture
async def agent() -> AsyncIterator[KindAgent]:
    async with kind_agent() as agent:
        yield agent


@pytest.fixture
def caller(world: RelayWorld) -> Caller:
    return world.admit()


async def eventually(holds: "asyncio.Future[bool] | object", what: str) -> None:
    assert callable(holds)

    async def check() -> bool | Pending[bool]:
        return True if holds() else Pending("not yet")

    await until(check, what=what, timeout_s=20, every_s=0.02)


# What is carried


async def test_a_turn_reaches_the_agent_with_our_key_and_nothing_of_the_callers(
    world: RelayWorld, agent: KindAgent, caller: Caller
) -> None:
    ada = world.agent("ada", agent.url)
    agent.headers = [("X-Hermes-Session-Id", "s-1"), ("Set-Cookie", "a=b"), ("Server", "x"), ("X-Relay-From", "relay")]
    theirs = [
        ("Authorization", "Bearer theirs"),
        ("X-Proxy-Token", "theirs"),
        ("Cookie", "a=b"),
        ("X-Forwarded-For", "10.0.0.1"),
        ("X-Hermes-Session-Id", "s-0"),
        ("Content-Type", "text/html"),
    ]
    for name in ("ada", ada.id, ada.user_id):
        response = await world.ask(caller, CHAT.replace("ada", name), body=SAID, headers=theirs)
        assert (response.status, response.whole) == (200, True)
        assert response.json == {"method": "POST", "target": "/v1/chat/completions"}
        assert response.headers == {
            "content-type": "application/json",
            "x-content-type-options": "nosniff",
            "x-hermes-session-id": "s-1",
            "x-relay-from": "agent",
            "transfer-encoding": "chunked",
            "connection": "close",
            "cache-control": "no-store",
        }
    carried = agent.asked[0]
    assert carried.body == SAID
    assert {name: value for name, value in carried.headers if name not in {"host", "user-agent", "content-length"}} == {
        "authorization": f"Bearer {world.registry.instance_secrets.api_server_key(ada.id)}",
        "x-proxy-token": TOKEN + "ada",
        "x-hermes-session-id": "s-0",
        "content-type": "application/json",
        "accept": "*/*",
        "accept-encoding": "identity",
        "connection": "close",
    }


async def test_events_come_one_by_one_as_the_agent_says_them(
    world: RelayWorld, agent: KindAgent, caller: Caller
) -> None:
    world.agent("ada", agent.url)
    agent.kind, agent.events = "text/event-stream", [b"data: one\n\n", b"data: two\n\n"]
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port, ssl=caller.context)
    writer.write(f"{CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    async with asyncio.timeout(30):
        head = await reader.readuntil(b"\r\n\r\n")
        assert b"content-type: text/event-stream\r\n" in head
        for event in agent.events:
            agent.go.release()
            assert event in await reader.readuntil(b"\n\n")
        assert (await reader.read()).endswith(b"0\r\n\r\n")
    writer.close()


async def test_an_agent_gets_no_more_from_who_has_hung_up(world: RelayWorld, agent: KindAgent, caller: Caller) -> None:
    world.agent("ada", agent.url)
    agent.kind, agent.events = "text/event-stream", [b"data: never\n\n"]
    _, writer = await asyncio.open_connection("127.0.0.1", world.port, ssl=caller.context)
    writer.write(f"{CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    await eventually(lambda: agent.asked, "the agent's question")
    writer.close()
    await eventually(lambda: agent.hung_up_on, "the relay's hanging up")


async def test_an_agent_does_not_get_what_its_caller_has_given_up(
    world: RelayWorld, agent: KindAgent, caller: Caller
) -> None:
    """Whoever hung, caller or relay, and delivers it afterwards."""
    world.agent("ada", agent.url)
    late = await world.ask(caller, CHAT, body=SAID, headers=[(UNTIL, f"{time.time() - 0.1:.3f}")])
    assert (late.status, late.code) == (503, "too_late")
    assert not agent.asked
    in_time = await world.ask(caller, CHAT, body=SAID, headers=[(UNTIL, f"{time.time() + 60:.3f}")])
    assert (in_time.status, len(agent.asked)) == (200, 1)
    assert agent.asked[0].header(UNTIL) is None


# Who may call


async def _refused_in_handshake(world: RelayWorld, context: ssl.SSLContext) -> None:
    response = Said(0, {}, b"", whole=False)
    with contextlib.suppress(OSError):
        response = await world.send(context, f"{HEALTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert (response.status, response.body) == (0, b"")


async def test_nobody_without_a_certificate_of_ours_gets_a_word(
    world: RelayWorld, agent: KindAgent, tmp_path: Path
) -> None:
    world.agent("ada", agent.url)
    await _refused_in_handshake(world, ssl.create_default_context(cadata=world.authority.certificate))
    strange = authority_in(tmp_path, environment="elsewhere")
    key = openssl.make()
    forged = Callers(world.registry, lambda: strange, environment="local", life=LIFE)
    certificate = forged.admit("message-router", openssl.request(key).decode(), why="test").certificate
    await _refused_in_handshake(world, world.proving(key, certificate))
    server = world.authority.serve(["127.0.0.1"], life=LIFE)
    await _refused_in_handshake(world, world.proving(server.key.encode(), server.pem))
    assert not agent.asked


async def test_a_machine_another_environments_service_and_a_revoked_one_are_refused(
    world: RelayWorld, agent: KindAgent, caller: Caller
) -> None:
    world.agent("ada", agent.url)
    key = openssl.make()
    request = openssl.request(key).decode()
    machines = Certificates(world.registry, lambda: world.authority, environment="local", url="https://x", life=LIFE)
    elsewhere = Callers(world.registry, lambda: world.authority, environment="staging", life=LIFE)
    for certificate in (
        machines.issue(request, MachineId("m-1")).certificate,
        elsewhere.admit("message-router", request, why="test").certificate,
    ):
        response = await world.send(world.proving(key, certificate), f"{HEALTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert (response.status, response.code) == (403, "not_a_caller")
    assert (await world.ask(caller, HEALTH)).status == 200
    world.registry.relay_callers.revoke("message-router", why="leaked")
    response = await world.ask(caller, HEALTH)
    assert (response.status, response.code) == (403, "not_a_caller")
    assert len(agent.asked) == 1


async def test_a_services_certificate_opens_nothing_that_is_machines(world: RelayWorld, caller: Caller) -> None:
    certificates = Certificates(
        world.registry, lambda: world.authority, environment="local", url="https://x", life=LIFE
    )
    service = PlatformService(world.registry, certificates, DataKeys(world.registry), environment="local")
    der = ssl.PEM_cert_to_DER_cert(caller.admitted.certificate)
    for method, path in (("GET", "/v1/standing"), ("GET", "/v1/data-key/v-1"), ("POST", "/v1/certificate")):
        answer = service.answer(der, method, path, caller.request.encode())
        assert (answer.status, b"no machine of this environment" in answer.body) == (403, True)


async def test_a_service_renews_its_certificate_by_itself(world: RelayWorld, caller: Caller) -> None:
    response = await world.ask(caller, "POST /certificate", body=caller.request.encode())
    assert response.status == 200
    assert response.json["serial"] != caller.admitted.serial
    assert world.registry.relay_callers.find_valid(response.json["serial"]) is not None
    assert (await world.ask(caller, "POST /certificate", body=b"nonsense")).code == "not_a_caller"


# What is refused


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST /agents/ada/toolbox/process/execute", 404),
        ("POST /agents/ada/../../toolbox/process/execute", 400),
        ("GET /agents/ada/v1/runs/%2e%2e/%2e%2e/toolbox", 400),
        ("GET /agents/ada//health", 400),
        ("GET http://127.0.0.1:7070/agents/ada/health", 400),
        ("GET /agents/ada/health?__proxy_token=x", 400),
        ("GET /agents/ada/api/jobs", 404),
        ("CONNECT 127.0.0.1:7070", 400),
        ("GET *", 400),
        ("GET /toolbox/process/execute", 400),
    ],
)
async def test_no_other_way_leads_to_a_machine(
    world: RelayWorld, agent: KindAgent, caller: Caller, line: str, status: int
) -> None:
    world.agent("ada", agent.url)
    response = await world.ask(caller, line)
    assert (response.status, response.headers["x-relay-from"], response.whole) == (status, "relay", True)
    assert not agent.asked


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET /agents/ada/health HTTP/1.0\r\nHost: x\r\n\r\n", 400),
        (b"\x16\x03\x01\x00\r\n\r\n", 400),
        (b"GET /agents/ada/health HTTP/1.1\r\nHost: x\r\nX: " + b"x" * 30000 + b"\r\n\r\n", 400),
        (b"GET /agents/ada/health HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 5000 + b"\r\n", 400),
        (b"POST /agents/ada/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n{}x", 400),
        (b"POST /agents/ada/v1/runs HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /agents/ada/v1/runs HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n", 411),
        (b"POST /agents/ada/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 10485761\r\n\r\n", 413),
        (b"POST /agents/ada/v1/runs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", 413),
        (b"GET /agents/ada/health HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}", 400),
        (b"GET /agents/ada/health HTTP/1.1\r\nHost: x\r\nAccept: a\x07b\r\n\r\n", 400),
        (b"GET /agents/ada/health HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", 411),
    ],
    ids=[
        "old",
        "no HTTP",
        "long head",
        "many headers",
        "two lengths",
        "chunked",
        "expects",
        "large",
        "huge",
        "body of a GET",
        "control character",
        "upgrade",
    ],
)
async def test_what_is_not_plainly_one_request_is_refused(
    world: RelayWorld, agent: KindAgent, caller: Caller, head: bytes, status: int
) -> None:
    world.agent("ada", agent.url)
    response = await world.send(caller.context, head)
    assert (response.status, response.headers["x-relay-from"]) == (status, "relay")
    assert not agent.asked


async def test_a_second_request_on_a_connection_is_not_read(
    world: RelayWorld, agent: KindAgent, caller: Caller
) -> None:
    world.agent("ada", agent.url)
    payload = f"{HEALTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    await world.send(caller.context, payload * 3)
    assert len(agent.asked) <= 1


async def test_who_says_nothing_or_half_is_told_and_hung_up_on(
    world: RelayWorld, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hermesops.serving.exchange._ASKING_S", 0.3)
    for head in (b"", b"GET /agents/ada/health HTTP/1.1\r\nHo"):
        response = await world.send(caller.context, head)
        assert (response.status, response.code) == (408, "too_slow")


async def test_an_agent_that_cannot_take_it_is_told_apart(world: RelayWorld, agent: KindAgent, caller: Caller) -> None:
    for alias, status, expected in (
        ("sue", InstanceStatus.SUSPENDED, (409, "agent_suspended", None)),
        ("pat", InstanceStatus.PROVISIONING, (503, "agent_not_ready", "10")),
        ("tom", InstanceStatus.RUNNING, (404, "no_agent", None)),
    ):
        instance = world.agent(alias, agent.url, status=status)
        if alias == "tom":
            world.registry.terminations.terminate(instance.id)
        response = await world.ask(caller, f"GET /agents/{alias}/health")
        assert (response.status, response.code, response.headers.get("retry-after")) == expected
    nobody = await world.ask(caller, "GET /agents/nobody/health")
    assert nobody.json == {"code": "no_agent", "error": "unknown agent"}
    assert not agent.asked


async def test_without_a_token_that_lives_and_its_address_nothing_is_sent(
    world: RelayWorld, agent: KindAgent, caller: Caller
) -> None:
    world.agent("ada", agent.url)
    world.agent("bob", "")
    response = await world.ask(caller, "GET /agents/bob/health")
    assert (response.status, response.code, response.headers["retry-after"]) == (503, "agent_not_ready", "5")
    world.clock.turn(timedelta(hours=6).total_seconds())
    assert (await world.ask(caller, HEALTH)).code == "agent_not_ready"
    world.registry.proxy_tokens.forget(MachineId("m-ada"), PLATFORM)
    assert (await world.ask(caller, HEALTH)).code == "agent_not_ready"
    assert not agent.asked


async def test_a_registry_that_is_away_is_said_and_why_is_not(
    world: RelayWorld, agent: KindAgent, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.agent("ada", agent.url)

    def away(_serial: str) -> HeldCaller | None:
        raise UnavailableError("postgresql://user:canary@db does not answer")

    monkeypatch.setattr(world.registry.relay_callers, "find_valid", away)
    response = await world.ask(caller, HEALTH)
    assert (response.status, response.code, b"canary" in response.body) == (503, "relay_not_ready", False)


# What an agent answers that is not its word to the caller


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (401, (502, "agent_refuses")),
        (403, (502, "agent_refuses")),
        (407, (502, "agent_refuses")),
        (502, (503, "agent_away")),
        (503, (503, "agent_away")),
        (504, (504, "outcome_unknown")),
        (302, (502, "bad_answer")),
        (307, (502, "bad_answer")),
    ],
)
async def test_what_is_not_the_agents_word_to_the_caller_is_said_by_the_relay(
    world: RelayWorld, agent: KindAgent, caller: Caller, status: int, expected: tuple[int, str]
) -> None:
    world.agent("ada", agent.url)
    agent.status, agent.headers = status, [("Location", "http://127.0.0.1:9/"), ("WWW-Authenticate", "Basic")]
    agent.answer = b'{"code": "canary", "error": "canary"}'
    response = await world.ask(caller, CHAT, body=SAID)
    assert (response.status, response.code) == expected
    assert not {"location", "www-authenticate"} & response.headers.keys()
    assert (response.headers.get("retry-after") == "5") == (expected[0] == 503)


@pytest.mark.parametrize("status", [200, 202, 400, 404, 409, 413, 418, 422, 429, 500, 599])
async def test_an_agents_own_word_is_marked_as_that(
    world: RelayWorld, agent: KindAgent, caller: Caller, status: int
) -> None:
    world.agent("ada", agent.url)
    agent.status, agent.answer = status, b'{"code": "no_agent", "error": "no such agent"}'
    response = await world.ask(caller, CHAT, body=SAID)
    assert (response.status, response.headers["x-relay-from"], response.body) == (status, "agent", agent.answer)


async def test_nobody_listening_is_said_as_that(world: RelayWorld, caller: Caller) -> None:
    async with kind_agent() as gone:
        url = gone.url
    world.agent("ada", url)
    response = await world.ask(caller, CHAT, body=SAID)
    assert (response.status, response.code, response.headers["retry-after"]) == (503, "agent_away", "5")


# How much


async def test_an_agent_carries_only_so_many_at_once_and_another_one_goes_on(tmp_path: Path, agent: KindAgent) -> None:
    async with relaying(tmp_path, places=Places(Most(per_agent=2))) as world, kind_agent() as other:
        caller = world.admit()
        world.agent("ada", agent.url)
        world.agent("bob", other.url)
        agent.kind, agent.events = "text/event-stream", [b"data: x\n\n"]
        held = [asyncio.create_task(world.ask(caller, CHAT, body=SAID)) for _ in range(2)]
        await eventually(lambda: len(agent.asked) == 2, "two questions")
        response = await world.ask(caller, CHAT, body=SAID)
        assert (response.status, response.code, response.headers["retry-after"]) == (429, "agent_busy", "1")
        assert (await world.ask(caller, "GET /agents/bob/health")).status == 200
        for _ in held:
            agent.go.release()
        assert [(response.status, response.whole) for response in await asyncio.gather(*held)] == [(200, True)] * 2
        agent.go.release()
        assert (await world.ask(caller, CHAT, body=SAID)).status == 200


async def test_told_to_stop_it_lets_answers_end_and_takes_no_more(tmp_path: Path, agent: KindAgent) -> None:
    async with relaying(tmp_path, bounds=bounds_of(30)) as world:
        caller = world.admit()
        world.agent("ada", agent.url)
        agent.kind, agent.events = "text/event-stream", [b"data: last words\n\n"]
        held = asyncio.create_task(world.ask(caller, CHAT, body=SAID))
        await eventually(lambda: agent.asked, "the question")
        world.serving.cancel()
        await asyncio.wait({world.serving}, timeout=0.2)
        with pytest.raises(ConnectionRefusedError):
            await world.ask(caller, HEALTH)
        agent.go.release()
        response = await held
        assert (response.whole, response.body) == (True, b"data: last words\n\n")
        async with asyncio.timeout(10):
            await asyncio.gather(world.serving, return_exceptions=True)


async def test_told_to_stop_it_breaks_off_what_does_not_end_and_nobody_takes_that_for_whole(
    tmp_path: Path, agent: KindAgent
) -> None:
    async with relaying(tmp_path, bounds=Bounds(time_s=60, stop_s=0.3)) as world:
        caller = world.admit()
        world.agent("ada", agent.url)
        agent.kind, agent.events = "text/event-stream", [b"data: half\n\n", b"data: never\n\n"]
        agent.go.release()
        held = asyncio.create_task(world.ask(caller, CHAT, body=SAID))
        await eventually(lambda: agent.asked, "the question")
        world.serving.cancel()
        response = await held
        assert (response.status, response.whole) == (200, False)


# What anybody learns


async def test_no_token_key_or_word_stands_in_an_answer_or_a_log(world: RelayWorld, agent: KindAgent) -> None:
    with capture_logs() as logs:
        caller = world.admit()
        ada = world.agent("ada", agent.url)
        agent.answer = b'{"content": "canary-of-an-agent"}'
        answers = [await world.ask(caller, CHAT, body=SAID)]
        for status in (401, 503, 500, 302):
            agent.status = status
            answers.append(await world.ask(caller, CHAT, body=SAID))
        agent.status = 200
        session = "GET /agents/ada/api/sessions/canary-of-a-session/messages"
        answers += [
            await world.ask(caller, line) for line in (session, "GET /agents/ada/x?canary-of-a-query", "GET /x")
        ]
        metrics = await world.ask(caller, "GET /metrics")
    key = world.registry.instance_secrets.api_server_key(ada.id)
    text = json.dumps([asdict(response) | {"body": response.body.decode()} for response in answers])
    text += metrics.body.decode()
    for secret in (TOKEN, key, "canary-of-a-user"):
        assert secret not in text
    logged = json.dumps(logs, default=str)
    for secret in (TOKEN, key, "canary-of"):
        assert secret not in logged
    ended = [line for line in logs if line["event"] == "request_ended"]
    assert (ended[0]["caller"], ended[0]["instance"], ended[0]["status"]) == ("message-router", ada.id, 200)
    assert ended[0]["route"] == "POST /v1/chat/completions"
    assert b'hermesops_relay_requests_total{outcome="relayed"} 3' in metrics.body
    assert b'hermesops_relay_requests_total{outcome="agent_refuses"} 1' in metrics.body
    assert b"hermesops_relay_requests_under_way 1" in metrics.body
