"""The programs that verify sends to a machine, run for real on this computer, which is no machine of ours."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hermesops.base import processes
from hermesops.machines.verify.backend import Expired, answers_of, command_of
from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.observations import Observations, observer_command
from hermesops.machines.verify.verification import PROMISES, verify
from hermesops.model.check import Verdict
from hermesops.vendor.channel import Channel, Completed
from tests.support.real.machines.one_by_one import verify_one_by_one

COMMANDS = ("echo out; echo err >&2", "exit 3", "kill -9 $$", "cat", r"printf '\377\0'", "echo ü")


def shell(command: str) -> Completed:
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, stdin=subprocess.DEVNULL, check=False)
    code = done.returncode
    return Completed(128 - code if code < 0 else code, done.stdout, done.stderr)


def test_a_batch_answers_what_each_command_answers_alone() -> None:
    answers = answers_of(COMMANDS, shell(command_of(COMMANDS, limit_s=20)))
    assert answers == {command: shell(command) for command in COMMANDS}


def test_a_command_over_the_limit_is_stopped_and_the_others_are_answered() -> None:
    commands = ("sleep 60 & sleep 60; echo late", "echo early")
    answers = answers_of(commands, shell(command_of(commands, limit_s=0.3)))
    assert answers == {commands[0]: Expired(), commands[1]: Completed(0, b"early\n", b"")}


def test_what_a_command_over_the_limit_left_in_the_background_is_stopped_too(tmp_path: Path) -> None:
    commands = (f"sleep 60 & echo $! >{tmp_path}/pid; sleep 60",)
    assert answers_of(commands, shell(command_of(commands, limit_s=0.5))) == {commands[0]: Expired()}
    pid = int((tmp_path / "pid").read_text())
    assert processes.has_ended(processes.here().fingerprint, pid, processes.started(pid))


def test_commands_of_a_batch_run_side_by_side() -> None:
    # Each waits for a file that the other makes: one after the other, the first would never end.
    folder = shell("mktemp -d").text
    commands = tuple(
        f"touch {folder}/{mine}; while [ ! -e {folder}/{other} ]; do :; done" for mine, other in ("ab", "ba")
    )
    answers = answers_of(commands, shell(command_of(commands, limit_s=20)))
    shell(f"rm -r {folder}")
    assert [answer for answer in answers.values() if isinstance(answer, Expired)] == []


def test_the_observer_says_nothing_of_a_machine_that_is_not_ours() -> None:
    answer = json.loads(shell(observer_command()).stdout)
    observations = Observations.parse(answer)
    assert (observations.identity, observations.key_digest, observations.has_model_key) == (None, "", False)


class Here:
    """A channel to this computer."""

    machine_id = "here"

    async def run(self, command: str, **_options: Mapping[str, object]) -> Completed:
        return shell(command)


async def test_the_verdicts_on_this_computer_are_those_of_testinfra_one_by_one() -> None:
    quiet = tuple(promise for promise in PROMISES if promise.name not in {"ports", "disk"})  # these move by themselves
    channel: Channel = Here()  # type: ignore[assignment]  # as far as it is used here
    batched = await verify(channel, Expected("nobody"), quiet)
    single = await verify_one_by_one(channel, Expected("nobody"), quiet)
    assert batched.checks == single.checks
    assert not any(check.verdict is Verdict.OK for check in batched.checks if check.name in {"identity", "api", "key"})
    assert batched.round_trips < single.round_trips
