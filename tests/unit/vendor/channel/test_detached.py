"""What becomes of a command that outlives its requests, whatever becomes of these."""

import asyncio
import json as text
import os
import shlex
import subprocess
from pathlib import Path

import httpx
import pytest

from hermesops.errors import RefusedError
from hermesops.vendor.channel import AnswerLostError, CommandExpiredError, Completed, MachineUnreachableError, Pace
from hermesops.vendor.channel import detached_scripts as scripts
from hermesops.vendor.channel.detached import CommandStatus, told_by
from hermesops.vendor.channel.toolbox import ToolboxChannel
from hermesops.vendor.justavps import Client
from tests.support.suite.cases import each_case
from tests.support.vendor.listed_answers import Answer, Answers, json

CUT = json(524, {"message": "a timeout occurred"})
LOST = httpx.RemoteProtocolError("hung up")
LONG_AGO = "never 86400\n"


def said(answer: str) -> httpx.Response:
    return json(200, {"exit_code": 0, "stdout": answer, "stderr": ""})


DONE = said("done 3 inline\n/w==\n\n")
RESULT = Completed(3, b"\xff", b"")


class Run:
    """One run of a command.

    Attributes:
        asked: What was asked of the machine.
    """

    def __init__(self, *answers: Answer, silence_s: float = 60) -> None:
        self._transport = Answers(*answers)
        client = Client("https://vendor.invalid/api/v1", "k", transport=self._transport)
        self._channel = ToolboxChannel(client, "m1", pace=Pace(every_s=0, silence_s=silence_s))

    async def done(self) -> Completed:
        return await self._channel.run("work", timeout_s=61)

    @property
    def asked(self) -> list[str]:
        return _verbs(self._transport)


def _verbs(transport: Answers) -> list[str]:
    return [_verb(request) for request in transport.requests]


def _verb(request: httpx.Request) -> str:
    script = shlex.split(text.loads(request.content)["command"])[2]
    return "start" if "setsid" in script else "look" if "flock -s" in script else "stop"


def test_what_the_machine_says_is_read_as_it_is_meant() -> None:
    assert told_by("done 3 inline\n/w==\n\n") == CommandStatus("done", 3, (b"\xff", b""))
    assert told_by("done 0 kept\n") == CommandStatus("done", 0)
    assert told_by("unstarted\nd2h5\n") == CommandStatus("unstarted", 126, (b"", b"why"))
    assert told_by("never 7\n") == CommandStatus("never", age_s=7)
    assert told_by("running\n") == CommandStatus("running")


@each_case("odd", ["", "\n", "done", "done x inline\n\n\n", "done 0 inline\n%\n", "never", "hello\n"])
def test_what_the_machine_never_says_means_nothing(odd: str) -> None:
    assert told_by(odd) == CommandStatus("")


async def test_what_ends_soon_is_one_round_trip() -> None:
    run = Run(DONE)
    assert await run.done() == RESULT
    assert run.asked == ["start"]


async def test_what_takes_long_is_asked_for_until_it_ends_and_cleared_away() -> None:
    run = Run(said("running\n"), said("running\n"), DONE)
    assert await run.done() == RESULT
    assert run.asked == ["start", "look", "look", "stop"]


@pytest.mark.parametrize("lost", [LOST, CUT, httpx.ReadTimeout("")])
async def test_a_lost_answer_to_the_start_is_looked_for_and_nothing_starts_twice(lost: Answer) -> None:
    run = Run(lost, said("running\n"), DONE)
    assert await run.done() == RESULT
    assert run.asked == ["start", "look", "look", "stop"]


async def test_a_question_that_was_lost_or_never_sent_is_asked_again() -> None:
    answers: list[Answer] = [
        said("running\n"),
        CUT,
        LOST,
        httpx.ConnectError("no route"),
        json(503, {}),
        json(408, {}),
        DONE,
    ]
    run = Run(*answers)
    assert await run.done() == RESULT
    assert run.asked == ["start", *["look"] * 6, "stop"]


async def test_a_start_that_was_never_sent_is_not_looked_for() -> None:
    run = Run(httpx.ConnectError("no route"))
    with pytest.raises(MachineUnreachableError, match="no route"):
        await run.done()
    assert run.asked == ["start"]


async def test_a_start_that_never_came_there_was_not_done() -> None:
    run = Run(LOST, said(LONG_AGO))
    with pytest.raises(MachineUnreachableError, match="never reached the machine"):
        await run.done()
    assert run.asked == ["start", "look"]


async def test_a_machine_that_was_booted_since_the_start_may_have_done_it() -> None:
    run = Run(LOST, said("never 0\n"))
    with pytest.raises(AnswerLostError, match="rebooted while the command ran"):
        await run.done()


async def test_a_command_that_ran_and_is_gone_has_an_unknown_outcome() -> None:
    run = Run(said("running\n"), said(LONG_AGO))
    with pytest.raises(AnswerLostError, match="rebooted while the command ran"):
        await run.done()
    run = Run(said("running\n"), said("broken\n"))
    with pytest.raises(AnswerLostError, match="killed from outside"):
        await run.done()
    assert run.asked[-1] == "stop"


async def test_a_machine_that_falls_silent_ends_the_wait() -> None:
    run = Run(said("running\n"), httpx.ConnectError("no route"), silence_s=0)
    with pytest.raises(AnswerLostError, match="no answer about a command"):
        await run.done()


async def test_the_limit_is_said() -> None:
    run = Run(said("expired\n"))
    with pytest.raises(CommandExpiredError, match="its time limit of 61 s"):
        await run.done()


async def test_a_command_that_could_not_begin_says_why() -> None:
    assert await Run(*[said("unstarted\nd2h5\n")] * 3).done() == Completed(126, b"", b"why")
    full = json(200, {"exit_code": 126, "stdout": "", "stderr": "no space"})
    assert await Run(full).done() == Completed(126, b"", b"no space")


@pytest.mark.parametrize("words", ["", "d2h5"])
async def test_a_command_that_systemd_dropped_is_started_again(words: str) -> None:
    dropped = said(f"unstarted\n{words}\n")
    run = Run(dropped, said("running\n"), dropped, DONE)
    assert await run.done() == RESULT
    assert run.asked == ["start", "start", "look", "start"]


async def test_a_command_that_systemd_always_drops_without_a_word_never_began() -> None:
    dropped = said("unstarted\n\n")
    run = Run(dropped, dropped, dropped)
    with pytest.raises(MachineUnreachableError, match="dropped a command 3 times before its start"):
        await run.done()


async def test_a_refused_start_is_just_said() -> None:
    run = Run(json(401, {"message": "no such key"}))
    with pytest.raises(RefusedError, match="no such key"):
        await run.done()
    assert run.asked == ["start"]


async def test_long_output_is_fetched() -> None:
    files = [httpx.Response(200, content=b"out"), httpx.Response(200, content=b"err")]
    transport = Answers(said("done 0 kept\n"), *files, said(""))
    client = Client("https://vendor.invalid/api/v1", "k", transport=transport)
    done = await ToolboxChannel(client, "m1").run("work", timeout_s=61)
    assert done == Completed(0, b"out", b"err")
    assert [request.url.params["path"].rsplit("/", 1)[-1] for request in transport.requests[1:3]] == ["out", "err"]


@pytest.mark.parametrize("answered", [0, 1])
async def test_a_command_that_is_cancelled_is_ended(answered: int) -> None:
    begun = asyncio.Event()

    class Slow(Answers):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            answer = await super().handle_async_request(request)
            if len(self.requests) == answered + 1:
                begun.set()
                await asyncio.Event().wait()
            return answer

    answers = Slow(said("running\n"))
    channel = ToolboxChannel(
        Client("https://vendor.invalid/api/v1", "k", transport=answers), "m1", pace=Pace(every_s=0)
    )
    run = asyncio.create_task(channel.run("work", timeout_s=61))
    await begun.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert _verbs(answers)[-1] == "stop"


def test_the_sweepers_command_has_nothing_that_a_reload_of_systemd_breaks(tmp_path: Path) -> None:
    """What it breaks was seen on a booted machine; tests/integration/test_detached_commands.py sweeps there."""
    sweep = _sweep_of(tmp_path)
    assert "systemctl stop hermesops-sweep-one.timer" in sweep
    assert set(sweep).isdisjoint('$;\\"`%')


def _sweep_of(tmp_path: Path) -> str:
    """The sweeper's command, of a command with a folder."""
    noted = tmp_path / "noted"
    stub = tmp_path / "systemd-run"
    stub.write_text(f'#!/bin/sh\nshift $(($# - 1))\nprintf %s "$1" >{noted}\n')
    stub.chmod(0o755)
    command = scripts.stop(str(tmp_path / "runs" / "one"))
    subprocess.run(["/bin/sh", "-c", command], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, timeout=30)
    return noted.read_text()


def test_a_sweep_that_leaves_commands_in_use_is_no_failed_unit(tmp_path: Path) -> None:
    sweep = _sweep_of(tmp_path)
    stopped = tmp_path / "stopped"
    (tmp_path / "systemctl").write_text(f"#!/bin/sh\ntouch {stopped}\n")
    (tmp_path / "systemctl").chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    swept = subprocess.run(["/bin/sh", "-c", sweep], check=False, env=environ, timeout=30, capture_output=True)
    assert (swept.returncode, swept.stderr) == (0, b"")
    assert (tmp_path / "runs" / "one").exists()
    assert not stopped.exists()
    os.utime(tmp_path / "runs" / "one", (0, 0))
    subprocess.run(["/bin/sh", "-c", sweep], check=True, env=environ, timeout=30)
    assert not (tmp_path / "runs").exists()
    assert stopped.exists()
