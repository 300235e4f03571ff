"""How testinfra reaches a machine: by answers fetched in one batch, and by the channel for what was not foreseen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from testinfra.backend.base import BaseBackend, CommandResult
from testinfra.host import Host

from hermesops.channel import Completed


@dataclass(frozen=True)
class Expired:
    """The command did not end within its time."""


Answer = Completed | Expired
Run = Callable[[str], Completed]
"""Runs a command on the machine and waits for it."""


class CommandTooSlowError(Exception):
    """A command of a batch ran into its time limit."""


class ChannelBackend(BaseBackend):  # type: ignore[misc]  # testinfra has no types
    """A testinfra backend over a channel.

    Args:
        machine_id: Which machine, for testinfra's own messages.
        run: Runs a command there; called from testinfra's thread.
        answers: What commands answered that were run already.
    """

    NAME = "hermesops"

    def __init__(self, machine_id: str, run: Run, answers: Mapping[str, Answer] | None = None) -> None:
        super().__init__(machine_id)
        self._run = run
        self._answers = answers or {}
        # Otherwise testinfra would ask the machine, by running Python there.
        self._encoding = "utf-8"
        self.direct: list[str] = []
        """The commands that had to be run one by one, in their order."""

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
