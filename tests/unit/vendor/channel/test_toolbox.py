import asyncio
import json as text

import httpx
import pytest

from hermesops.vendor.channel import AnswerLostError, MachineUnreachableError, ToolboxChannel
from hermesops.vendor.justavps import Client
from tests.support.vendor.listed_answers import Answer, Answers, json

DONE = json(200, {"exit_code": 0, "stdout": "", "stderr": ""})


def _channel(*answers: Answer) -> tuple[ToolboxChannel, Answers]:
    transport = Answers(*answers)
    return ToolboxChannel(Client("https://vendor.invalid/api/v1", "k", transport=transport), "m1"), transport


async def test_a_command_is_one_round_trip_and_two_with_input() -> None:
    channel, answers = _channel(DONE)
    await channel.run("true")
    assert len(answers.requests) == 1
    await channel.run("cat", stdin=b"x")
    assert len(answers.requests) == 3


async def test_input_never_stands_in_a_command() -> None:
    channel, answers = _channel(DONE)
    await channel.run("cat", stdin=b"CANARY", user="hermes")
    upload, execute = answers.requests
    assert (upload.url.params["mode"], upload.content) == ("600", b"CANARY")
    assert upload.url.params["path"].startswith("/run/")
    assert b"CANARY" not in execute.content
    assert text.loads(execute.content)["user"] == "root"


@pytest.mark.parametrize(
    ("lost", "kind", "message"),
    [
        (httpx.ReadTimeout(""), AnswerLostError, "no answer"),
        (httpx.ConnectError(""), MachineUnreachableError, "not reachable"),
    ],
)
async def test_input_of_a_command_that_was_lost_is_removed(
    lost: Exception, kind: type[Exception], message: str
) -> None:
    channel, answers = _channel(DONE, lost, DONE)
    with pytest.raises(kind, match=message):
        await channel.run("cat", stdin=b"x")
    assert answers.asked[-1] == "DELETE /api/v1/machines/m1/toolbox/files"
    assert answers.requests[-1].url.params["path"] == answers.requests[0].url.params["path"]


async def test_input_of_a_command_that_was_cancelled_is_removed() -> None:
    begun = asyncio.Event()

    class Slow(Answers):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if request.url.path.endswith("/execute"):
                begun.set()
                await asyncio.Event().wait()
            return answer

    answers = Slow(DONE)
    channel = ToolboxChannel(Client("https://vendor.invalid/api/v1", "k", transport=answers), "m1")
    run = asyncio.create_task(channel.run("cat", stdin=b"x"))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert answers.asked[-1] == "DELETE /api/v1/machines/m1/toolbox/files"


async def test_output_that_was_cut_is_marked() -> None:
    channel, _ = _channel(json(200, {"exit_code": 0, "stdout": "x", "truncated": True}))
    assert not (await channel.run("yes")).exact


async def test_a_binary_run_that_could_not_begin_is_told_as_it_is() -> None:
    channel, _ = _channel(json(200, {"exit_code": 126, "stdout": "", "stderr": "mkdir: no space"}))
    done = await channel.run("true", binary=True)
    assert (done.exit_code, done.stderr) == (126, b"mkdir: no space")


def test_a_part_of_a_second_is_a_second() -> None:
    async def asked() -> object:
        channel, answers = _channel(DONE)
        await channel.run("true", timeout_s=0.2)
        return text.loads(answers.requests[0].content)["timeout"]

    assert asyncio.run(asked()) == 1
