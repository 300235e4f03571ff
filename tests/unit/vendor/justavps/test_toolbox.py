import base64
import json as text
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from hermesops.vendor.justavps import Client, Execution, ExitEvent, OutputEvent, errors
from tests.support.vendor.listed_answers import Answer, Answers, json


def _client(*answers: Answer) -> tuple[Client, Answers]:
    transport = Answers(*answers)
    return Client("https://vendor.invalid/api/v1", "k", transport=transport), transport


async def test_a_command_is_sent_with_what_was_chosen() -> None:
    client, answers = _client(json(200, {"exit_code": 3, "stdout": "o", "stderr": None}))
    done = await client.toolbox.execute("m1", Execution("ls", timeout_s=5, user="hermes", cwd="/", env={"A": "b"}))
    assert (done.exit_code, done.stdout, done.stderr) == (3, "o", "")
    assert answers.asked == ["POST /api/v1/machines/m1/toolbox/process/execute"]
    assert text.loads(answers.requests[0].content) == {
        "command": "ls",
        "timeout": 5,
        "user": "hermes",
        "cwd": "/",
        "env": {"A": "b"},
    }


async def test_we_wait_longer_than_the_command_may_take() -> None:
    client, answers = _client(json(200, {"exit_code": 0}))
    await client.toolbox.execute("m1", Execution("sleep 500", timeout_s=600))
    assert answers.requests[0].extensions["timeout"]["read"] > 600


def test_a_command_is_not_shown() -> None:
    assert "CANARY" not in repr(Execution("echo CANARY", env={"A": "CANARY"}))


async def test_a_lost_command_is_not_sent_again() -> None:
    client, answers = _client(httpx.ReadTimeout(""))
    with pytest.raises(errors.LostChangeError, match=r"execute: no answer \(ReadTimeout\)"):
        await client.toolbox.execute("m1", Execution("true"))
    assert len(answers.requests) == 1


def _sse(*events: tuple[str, object]) -> httpx.Response:
    lines = "".join(f"event: {name}\ndata: {text.dumps(data)}\n\n" for name, data in events)
    return httpx.Response(200, content=lines.encode())


async def _streamed(answer: httpx.Response) -> list[OutputEvent | ExitEvent]:
    client, _ = _client(answer)
    return [event async for event in client.toolbox.stream("m1", Execution("x"))]


async def test_output_arrives_in_bytes_and_the_exit_is_last() -> None:
    data = base64.b64encode(b"a\xff").decode()
    streamed = await _streamed(_sse(("stdout", {"data": data}), ("stderr", {"data": data}), ("exit", {"exit_code": 4})))
    assert streamed == [OutputEvent("stdout", b"a\xff"), OutputEvent("stderr", b"a\xff"), ExitEvent(4)]


async def test_other_spellings_of_the_stream_are_read() -> None:
    unnamed = b'data: {"type": "stdout", "text": "two words"}\n\ndata: {"type": "done", "exit_code": 0}\n\n'
    assert await _streamed(httpx.Response(200, content=unnamed)) == [OutputEvent("stdout", b"two words"), ExitEvent(0)]


async def test_a_stream_without_an_exit_is_a_lost_answer() -> None:
    with pytest.raises(errors.LostChangeError, match="ended without an exit code"):
        await _streamed(_sse(("stdout", {"data": ""})))


async def test_a_stream_tells_of_the_time_limit() -> None:
    with pytest.raises(errors.CommandTimedOutError, match="reached its time limit"):
        await _streamed(_sse(("error", {"error": "killed", "code": "timeout"})))


async def test_a_stream_tells_of_a_refusal() -> None:
    with pytest.raises(errors.NotAllowedError, match="no user"):
        await _streamed(_sse(("error", {"error": "there is no user x", "code": "user_not_found"})))


async def test_files_go_up_from_memory_disk_and_anywhere(tmp_path: Path) -> None:
    source = tmp_path / "file"
    source.write_bytes(b"from disk")

    async def pieces() -> AsyncIterator[bytes]:
        yield b"from "
        yield b"anywhere"

    client, answers = _client(json(200, {}))
    await client.toolbox.upload("m1", "/etc/x y", b"from memory", mode=0o600)
    await client.toolbox.upload("m1", "/etc/x", source)
    await client.toolbox.upload("m1", "/etc/x", pieces())
    assert [request.content for request in answers.requests] == [b"from memory", b"from disk", b"from anywhere"]
    assert dict(answers.requests[0].url.params) == {"path": "/etc/x y", "mode": "600", "overwrite": "true"}
    assert answers.requests[1].headers["transfer-encoding"] == "chunked"


class _Breaking(httpx.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"half"
        raise httpx.ReadError("reset")


async def test_half_a_download_leaves_the_old_file_alone(tmp_path: Path) -> None:
    target = tmp_path / "file"
    target.write_bytes(b"old")
    client, _ = _client(lambda _request: httpx.Response(200, stream=_Breaking()))
    with pytest.raises(errors.LostReadError, match=r"download: no answer \(reset\)"):
        await client.toolbox.download_to("m1", "/x", target)
    assert {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path)} == {"file": b"old"}  # noqa: PTH208 - names


@pytest.mark.parametrize("body", [b"<html>", b"[" * 100_000])
async def test_an_answer_that_is_not_json_says_nothing_of_a_command(body: bytes) -> None:
    client, _ = _client(httpx.Response(200, content=body))
    with pytest.raises(errors.ChangeNotJsonError, match="not JSON"):
        await client.toolbox.execute("m1", Execution("true"))


async def test_a_missing_machine_is_not_a_missing_file() -> None:
    client, _ = _client(json(404, {"error": True, "message": "machine not found", "status": 404}))
    with pytest.raises(errors.NotFoundError, match="machine not found"):
        await client.toolbox.delete("m1", "/x")


async def test_deleting_a_missing_file_is_success() -> None:
    client, answers = _client(json(404, {"error": "no such file", "code": "not_found"}))
    await client.toolbox.delete("m1", "/x", recursive=True)
    assert dict(answers.requests[0].url.params) == {"path": "/x", "recursive": "true"}
