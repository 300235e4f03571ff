"""Others are told of a rollout and asked about it, over HTTP and by commands; who does not answer holds nothing up."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from hermesops.model.rollout import GateResult
from hermesops.model.rollout_spec import HookGate
from hermesops.rollout.web_hooks import Hooks, WebHook
from tests.support.rollouts import ROLLOUT, STARTED


class Service:
    """Answers every request alike, and remembers what it was sent."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers = list(answers)
        self.heard: list[dict[str, object]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(next(line for line in head.splitlines() if line.startswith("content-length")).split(":")[1])
        self.heard.append(json.loads(await reader.readexactly(length)))
        status, body = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode())
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
    assert [(one["rollout"], one["what"], one["environment"]) for one in service.heard] == [
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


@pytest.mark.parametrize(
    ("program", "answer"),
    [
        ("print('fine')", (GateResult.PASS, "fine")),
        ("print('bad'); raise SystemExit(1)", (GateResult.FAIL, "bad")),
        ("raise SystemExit(2)", (GateResult.INCONCLUSIVE, "exit code 2")),
        ("import json, sys; print(json.load(sys.stdin)['release'])", (GateResult.PASS, ROLLOUT.release)),
        ("import time; time.sleep(60)", (GateResult.INCONCLUSIVE, "no answer in 2 s")),
    ],
)
async def test_a_commands_exit_code_is_its_answer(program: str, answer: tuple[GateResult, str]) -> None:
    hook = HookGate("mine", command=(sys.executable, "-c", program), timeout_s=2 if "sleep" in program else 60)
    assert await Hooks(environment="staging", variables={}).ask(hook, ROLLOUT) == answer


async def test_a_command_that_is_not_there_is_inconclusive() -> None:
    result, detail = await Hooks(environment="staging", variables={}).ask(
        HookGate("mine", command=("/nowhere",)), ROLLOUT
    )
    assert result is GateResult.INCONCLUSIVE
    assert "/nowhere" in detail


@pytest.mark.parametrize(
    ("status", "body", "result"),
    [
        (200, '{"result": "pass", "detail": "ok"}', GateResult.PASS),
        (200, '{"result": "fail"}', GateResult.FAIL),
        (200, '{"result": "not_exercised"}', GateResult.INCONCLUSIVE),
        (200, "fine", GateResult.INCONCLUSIVE),
        (503, '{"result": "pass"}', GateResult.INCONCLUSIVE),
    ],
)
async def test_a_service_passes_only_by_saying_so(status: int, body: str, result: GateResult) -> None:
    async with serving(Service((status, body))) as url:
        said, _ = await Hooks(environment="staging", variables={}).ask(HookGate("mine", url=url, timeout_s=20), ROLLOUT)
    assert said is result
