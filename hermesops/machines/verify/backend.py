"""A testinfra backend for one machine: known commands run in one batch, others one by one.

The commands are learned from a rehearsal that answers as a healthy machine might. An answer that does not fit only ends
a look early; its further commands then run one by one, so a bad guess costs a round trip and never a verdict.
"""

import base64
import contextlib
import json
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from hermesops.errors import UnavailableError
from hermesops.machines.verify.checks.promise import Expected, Promise
from hermesops.machines.verify.on_machine import BATCH, PYTHON
from hermesops.vendor.channel import Completed, last_words
from hermesops.wire import strict_json


@dataclass(frozen=True)
class Expired:
    """The command did not end within its time."""


Answer = Completed | Expired
Run = Callable[[str], Completed]
"""Runs a command on the machine and waits for it."""


class CommandTooSlowError(Exception):
    """A command of a batch ran into its time limit."""


class ChannelBackend(BaseBackend):  # type: ignore[misc]  # testinfra has no types
    """A testinfra backend over a channel: ``run`` is called from testinfra's thread for commands without an answer."""

    NAME = "hermesops"

    def __init__(self, machine_id: str, run: Run, answers: Mapping[str, Answer]) -> None:
        super().__init__(machine_id)
        self._run = run
        self._answers = answers
        # Otherwise testinfra would ask the machine, by running Python there.
        self._encoding = "utf-8"
        self.direct: list[str] = []
        """The commands that were run one by one, in order."""

    def run(self, command: str, *args: str, **_kwargs: Any) -> CommandResult:  # noqa: ANN401 - testinfra's signature
        """Answer a command, from the batch if it is there."""
        line = self.get_command(command, *args)
        answer = self._answers.get(line)
        if answer is None:
            self.direct.append(line)
            answer = self._run(line)
        if isinstance(answer, Expired):
            raise CommandTooSlowError(line.split()[0])
        return self.result(answer.exit_code, line.encode(), answer.stdout, answer.stderr)

    def host(self) -> Host:
        """A host of testinfra's over this backend."""
        host = Host(self)
        self.set_host(host)
        return host


_LARGEST = 16 << 20
"""Bytes of all answers of one machine."""


def command_of(commands: Sequence[str], *, limit_s: float) -> str:
    """The one command that runs all of them, which must not depend on each other, side by side for ``limit_s`` s."""
    python = f"{shlex.join(PYTHON)} "
    # Of a command that only runs a Python program, as the batch itself is run, its source and arguments.
    batched = [shlex.split(each)[len(PYTHON) :] if each.startswith(python) else each for each in commands]
    return shlex.join([*PYTHON, BATCH, f"{limit_s:g}", json.dumps(batched)])


def answers_of(commands: Sequence[str], completed: Completed) -> dict[str, Answer]:
    """Parse the output of a batch into an answer for each command.

    Raises:
        UnavailableError: The batch itself did not run.
    """
    try:
        answers = strict_json.parse(completed.stdout, largest=_LARGEST)
        return {command: _answer(answer) for command, answer in zip(commands, answers, strict=True)}
    except (ValueError, TypeError, AttributeError):
        raise UnavailableError(
            f"the checks did not run on the machine: exit {completed.exit_code}: {last_words(completed)}"
        ) from None


def _answer(answer: list[str] | None) -> Answer:
    if answer is None:
        return Expired()
    code, out, err = answer
    return Completed(int(code), base64.b64decode(out), base64.b64decode(err))


_HEALTHY = (
    ("uname -s", "Linux"),
    ("uname -m", "x86_64"),
    ("cat /etc/os-release", "ID=debian"),
    ("systemctl is-active ", "active"),
    ("systemctl is-enabled ", "enabled"),
    ("nft ", '{"nftables": [{"chain": {"hook": "input", "policy": "drop"}}]}'),
    ("df ", "1% 1%"),
    ("python3 ", "{}"),
)


def commands_of(promises: Iterable[Promise], expected: Expected) -> tuple[str, ...]:
    """Every command that the promises run, once each, in order."""
    rehearsal = ChannelBackend("nowhere", _healthy_answer, {})
    host = rehearsal.host()
    for promise in promises:
        # Whatever a look makes of an invented answer: only its commands are needed.
        with contextlib.suppress(Exception):
            promise.observe(host, expected)
    return tuple(dict.fromkeys(rehearsal.direct))


def _healthy_answer(command: str) -> Completed:
    if command.startswith("systemctl show "):
        units = command.removeprefix("systemctl show ").partition(" --")[0].split()
        return Completed(0, "\n\n".join(f"Id={unit}" for unit in units).encode(), b"")
    fitting = (text for beginning, text in _HEALTHY if command.startswith(beginning))
    return Completed(0, next(fitting, "").encode(), b"")
