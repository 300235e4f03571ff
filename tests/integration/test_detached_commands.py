"""Commands of a booted machine that take longer than any request may be silent."""

import asyncio
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.vendor.channel import (
    AnswerLostError,
    CommandExpiredError,
    Completed,
    MachineUnreachableError,
    Pace,
    ToolboxChannel,
)
from hermesops.vendor.channel import detached_scripts as scripts
from hermesops.vendor.justavps import Client
from tests.support.real.machines.machine import opened_driver
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.local_server import LocalCloud
from tests.support.worlds.local.local_server import serving as serving_cloud

pytestmark = pytest.mark.machines

SILENCE_S = 2
SHORT_ANSWERS = Pace(direct_s=0, answer_s=0.5, every_s=0.05)


@dataclass
class Bench:
    """A machine, the world it is in, and a channel whose every command is detached."""

    cloud: LocalCloud
    client: Client
    machine_id: str

    @property
    def channel(self) -> ToolboxChannel:
        return ToolboxChannel(self.client, self.machine_id, pace=SHORT_ANSWERS)

    async def seen(self, command: str) -> str:
        """What a plain command prints."""
        return (await ToolboxChannel(self.client, self.machine_id).run(command)).text


@pytest.fixture(scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    require(os.geteuid() == 0, "root, to boot machines")
    folder = tmp_path_factory.mktemp("world")
    async with opened_driver() as driver, serving_cloud(folder, driver) as cloud:
        machine_id = str((await cloud.ready("detached"))["id"])
        async with Client(f"{cloud.where.api_url}/api/v1", (folder / "api.key").read_text().strip()) as client:
            yield Bench(cloud, client, machine_id)


@pytest.fixture(autouse=True)
async def _no_faults_stay(bench: Bench) -> AsyncIterator[None]:
    yield
    await bench.cloud.http.delete("/local/faults")


async def _runs(bench: Bench, mark: str) -> None:
    async def observe() -> bool | Pending[bool]:
        return bool(await bench.seen(f"ls -d {mark}")) or Pending("not begun")

    await until(observe, what="the command to begin", timeout_s=20, every_s=0.05)


async def test_a_command_outlives_an_edge_that_cuts_silence(bench: Bench) -> None:
    await bench.cloud.fault("silence-cut", seconds=SILENCE_S, times=99)
    patient = ToolboxChannel(bench.client, bench.machine_id)  # whose requests would be silent for longer
    done = await patient.run(f"echo ran >>/var/tmp/ran; sleep {2 * SILENCE_S}; echo end; exit 3", timeout_s=90)
    assert (done.exit_code, done.stdout) == (3, b"end\n")
    assert await bench.seen("cat /var/tmp/ran") == "ran"
    assert (await bench.cloud.http.get("/local/faults")).json()["faults"][0]["times"] < 99


@pytest.mark.parametrize("command", ["echo $$ >>/var/tmp/once; echo end", "echo $$ >>/var/tmp/once; sleep 1; echo end"])
async def test_a_command_whose_every_other_answer_is_lost_runs_once(bench: Bench, command: str) -> None:
    for _ in range(2):
        await bench.cloud.fault("lost-answer", machine="detached")
        assert (await bench.channel.run(command)).stdout == b"end\n"
    assert await bench.seen("wc -l </var/tmp/once; rm /var/tmp/once") == "2"


async def test_the_limit_ends_all_that_a_command_started(bench: Bench) -> None:
    with pytest.raises(CommandExpiredError, match="reached its time limit of 1 s"):
        await bench.channel.run("setsid --fork sleep 4321; exec sleep 4321", timeout_s=1)
    assert await bench.seen("pgrep -x sleep -a | grep 4321; ls -d /run/hermesops-runs/*/expired") == ""


async def test_what_a_command_leaves_behind_lives_on(bench: Bench) -> None:
    await bench.channel.run("setsid --fork sleep 1234 >/dev/null 2>&1", timeout_s=2)
    assert "1234" in await bench.seen("sleep 2.5; pgrep -x sleep -a; pkill -x sleep")


async def test_a_command_that_nobody_waits_for_any_more_is_ended_and_leaves_nothing(bench: Bench) -> None:
    before = await bench.seen(f"ls {scripts.FOLDER}")
    waiting = asyncio.create_task(bench.channel.run("touch /run/begun-0; cat; sleep 5678", stdin=b"secret"))
    await _runs(bench, "/run/begun-0")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert await bench.seen("pgrep -x sleep -a | grep 5678; ls /run | grep stdin") == ""
    assert await bench.seen(f"ls {scripts.FOLDER}") == before


async def test_output_is_roots_alone(bench: Bench) -> None:
    listed = await bench.channel.run(f"setpriv --reuid nobody --clear-groups ls {scripts.FOLDER}")
    assert (listed.exit_code, listed.stdout) == (2, b"")


async def test_a_start_that_never_came_there_may_be_repeated(bench: Bench) -> None:
    await bench.cloud.fault("server-error", method="POST", path=f"/machines/{bench.machine_id}/toolbox", status=500)
    with pytest.raises(MachineUnreachableError, match="never reached the machine"):
        await bench.channel.run("touch /run/never")
    assert await bench.seen("ls /run/never") == ""


async def test_a_start_that_comes_there_late_is_refused(bench: Bench) -> None:
    folder = f"{scripts.FOLDER}/hermesops-run-late"
    for first in (scripts.observe(folder, "1", "9"), scripts.stop(f"{folder}r")):
        assert (await bench.seen(first)).startswith("never")
    for late in (folder, f"{folder}r"):
        assert await bench.seen(scripts.start(late, "touch /run/late", "9", "1", "9")) == "refused"
    assert await bench.seen("ls /run/late") == ""


@pytest.mark.turns(16)
@pytest.mark.parametrize("verb", ["daemon-reload", "daemon-reexec"])
async def test_commands_begin_also_while_systemd_reloads_all_the_time(bench: Bench, verb: str) -> None:
    script = f"for _ in $(seq 20); do systemctl {verb}; sleep 0.2; done; echo reloaded"
    reloads = asyncio.create_task(bench.seen(script))
    while not reloads.done():
        assert await bench.channel.run("echo ran") == Completed(0, b"ran\n", b"")
    assert await reloads == "reloaded"


async def test_a_command_that_systemd_drops_without_a_word_runs_once_in_the_end(bench: Bench) -> None:
    drops_once = '#!/bin/sh\nrm "$0"\nexit 1\n'
    await bench.channel.put("/usr/local/bin/systemd-run", drops_once.encode(), mode=0o755)
    assert (await bench.channel.run("echo $$ >>/var/tmp/dropped; echo end")).stdout == b"end\n"
    assert await bench.seen("wc -l </var/tmp/dropped; ls /usr/local/bin/systemd-run") == "1"


async def test_what_was_told_at_once_is_swept_in_the_end(bench: Bench) -> None:
    waiting = asyncio.create_task(bench.channel.run("touch /run/begun-1; sleep 60"))
    await _runs(bench, "/run/begun-1")
    await bench.channel.run("true")
    make_old = f"touch -d '1 hour ago' {scripts.FOLDER}/*"
    # The sweeper's own timer starts it long after systemd has read its units again.
    sweep = f"systemctl daemon-reload; {make_old}; systemctl start $(systemctl show -P Triggers '*sweep*.timer')"

    async def left(count: int) -> bool | Pending[bool]:
        names = (await bench.seen(f"ls {scripts.FOLDER}; systemctl list-timers --no-legend '*sweep*'")).splitlines()
        return len(names) == count or Pending(str(names))

    await bench.seen(sweep)
    # The one that runs, and the timer.
    await until(lambda: left(2), what="the sweep", timeout_s=20, every_s=0.1)
    waiting.cancel()
    await asyncio.wait({waiting})
    await bench.channel.run("true")
    await bench.seen(sweep)
    await until(lambda: left(0), what="the last sweep", timeout_s=20, every_s=0.1)


async def test_a_command_that_the_machines_reboot_cut_has_an_unknown_outcome(bench: Bench) -> None:
    waiting = asyncio.create_task(bench.channel.run("touch /run/begun-2; sleep 6789"))
    await _runs(bench, "/run/begun-2")
    await bench.cloud.http.post(f"/api/v1/machines/{bench.machine_id}/reboot")
    with pytest.raises(AnswerLostError, match="rebooted while the command ran"):
        await waiting
    await _runs(bench, "/run")
