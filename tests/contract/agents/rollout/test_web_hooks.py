"""Others are told of a rollout and asked about it, over HTTP and by commands; who does not answer holds nothing up."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from hermesops.agents.rollout.gates.hooks import AllowedHooks, ask_hook
from hermesops.agents.rollout.ports import AskHook
from hermesops.agents.rollout.watch.webhooks import WebHook
from hermesops.model.rollout.records import GateResult
from hermesops.model.rollout.spec import HookGate
from tests.support.rollouts.rows import ROLLOUT, STARTED


class Service:
    """Answers every request alike, and remembers what it was sent."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.heard: list[dict[str, object]] = []
        self.headers = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(next(line for line in head.splitlines() if line.startswith("content-length")).split(":")[1])
        self.heard.append(json.loads(await reader.readexactly(length)))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n{self.headers}\r\n"
        writer.write((head + body).encode())
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(service: Service) -> AsyncIterator[str]:
    server = await asyncio.start_server(service.serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"


async def test_a_change_of_state_is_one_message_and_a_failing_receiver_gets_it_again() -> None:
    service, warned = Service((500, ""), (200, "")), list[str]()
    async with serving(service) as url:
        hook = WebHook(url, environment="staging", warn=lambda event, **_: warned.append(event))
        await hook.notify(ROLLOUT, STARTED)
    assert [(message["rollout"], message["what"], message["environment"]) for message in service.heard] == [
        ("r1", "start", "staging")
    ] * 2
    assert service.heard[0]["state"] == "pending"
    assert warned == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/hook?key=geheim", "not a url geheim"])
async def test_a_receiver_that_is_not_there_is_warned_of_without_its_address(url: str) -> None:
    warned: list[str] = []
    hook = WebHook(url, environment="staging", warn=lambda event, **fields: warned.append(f"{event} {fields}"))
    await hook.notify(ROLLOUT, STARTED)
    assert len(warned) == 1
    assert "geheim" not in warned[0]


async def test_nobody_is_told_where_no_address_is_set() -> None:
    await WebHook("", environment="staging", warn=lambda event, **_: pytest.fail(event)).notify(ROLLOUT, STARTED)


def hooks(url: str = "", **commands: str) -> AskHook:
    """Of a computer that defines these commands, in the local world."""
    assert not url or url.startswith("http://127.0.0.1:")
    return partial(ask_hook, environment="staging", allowed=AllowedHooks(commands, is_local=True), search=os.defpath)


@pytest.mark.parametrize(
    ("status", "body", "result"),
    [
        (200, '{"result": "pass", "detail": "ok"}', GateResult.PASS),
        (200, '{"result": "fail"}', GateResult.FAIL),
        (200, '{"result": "not_exercised"}', GateResult.INCONCLUSIVE),
        (200, '{"result": "fail", "result": "pass"}', GateResult.INCONCLUSIVE),
        (200, "fine", GateResult.INCONCLUSIVE),
        (200, "[" * 60_000, GateResult.INCONCLUSIVE),
        (200, json.dumps({"result": "pass", "detail": "x" * 70_000}), GateResult.INCONCLUSIVE),
        (503, '{"result": "pass"}', GateResult.INCONCLUSIVE),
    ],
    ids=range(8),
)
async def test_a_service_passes_only_by_saying_so(status: int, body: str, result: GateResult) -> None:
    async with serving(Service((status, body))) as url:
        gate_result, _ = await hooks(url)(HookGate("mine", url=url, timeout_s=20), ROLLOUT)
    assert gate_result is result


async def test_a_service_is_not_followed_elsewhere() -> None:
    async with serving(Service((200, '{"result": "pass"}'))) as elsewhere:
        service = Service((302, ""))
        service.headers = f"Location: {elsewhere}\r\n"
        async with serving(service) as url:
            result, detail = await hooks(url)(HookGate("mine", url=url, timeout_s=20), ROLLOUT)
    assert (result, detail) == (GateResult.INCONCLUSIVE, "it answered 302")


async def test_what_a_service_says_is_shown_as_text() -> None:
    body = json.dumps({"result": "fail", "detail": "a\x1b[2Kb\nhermesops: all is well"})
    async with serving(Service((200, body))) as url:
        _, detail = await hooks(url)(HookGate("mine", url=url, timeout_s=20), ROLLOUT)
    assert detail == "a\\x1b[2Kb hermesops: all is well"


async def test_a_service_that_drips_is_left_at_the_deadline() -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 X\r\nContent-Length: 9999\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            for _ in range(100):
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.1)  # noqa: TID251 - real time is what this is about

    server = await asyncio.start_server(drip, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
    begun = time.monotonic()
    result, detail = await hooks(url)(HookGate("mine", url=url, timeout_s=1), ROLLOUT)
    server.close()
    assert (result, detail) == (GateResult.INCONCLUSIVE, "no answer: not whole after 1 s")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("url", "is_local", "words"),
    [
        ("http://hooks.example/x?key=geheim", False, "hooks.example has no TLS"),
        ("http://hooks.example/x", True, "hooks.example has no TLS"),
        ("https://other.example/x?key=geheim", False, "other.example is not among the hosts"),
        ("https://other.example/x", True, "other.example is not among the hosts"),
        ("https://hooks.example:8443/", False, "hooks.example is not among the hosts"),
        ("https://hooks.example@other.example/", False, "other.example is not among the hosts"),
        ("http://127.0.0.1:9/", False, "127.0.0.1 has no TLS"),
        ("https://127.0.0.1:9/", False, "127.0.0.1 is not among the hosts"),
        ("ftp://hooks.example/", True, "the URL cannot be read"),
        ("https://[::1", True, "the URL cannot be read"),
        ("https://hooks.example/x", False, ""),
        ("https://HOOKS.example:443/x", False, ""),
        ("https://ports.example:8443/", False, ""),
        ("http://127.0.0.1:9/", True, ""),
        ("http://localhost:9/", True, ""),
    ],
)
def test_only_services_that_the_settings_allow_are_asked(url: str, is_local: bool, words: str) -> None:  # noqa: FBT001 - a case
    allowed = AllowedHooks({}, {"hooks.example", "ports.example:8443"}, is_local=is_local)
    problem = allowed.problem(HookGate("x", url=url))
    assert words in problem
    assert bool(words) is bool(problem)
    assert "geheim" not in problem


async def test_a_message_goes_nowhere_without_tls() -> None:
    warned: list[str] = []
    hook = WebHook(
        "http://hooks.example/?key=geheim",
        environment="staging",
        warn=lambda event, **fields: warned.append(f"{event} {fields}"),
        refuses=AllowedHooks({}).cleartext_problem,
    )
    await hook.notify(ROLLOUT, STARTED)
    assert len(warned) == 1
    assert "has no TLS" in warned[0]
    assert "geheim" not in warned[0]
