"""Many commands in one: the command that runs them all on a machine, and what it answered. Pure."""

import base64
import json
import shlex
from collections.abc import Sequence

from hermesops.channel import Completed, last_words
from hermesops.errors import UnavailableError
from hermesops.node.untrusted import strict_json
from hermesops.verify.backend import Answer, Expired
from hermesops.verify.on_machine import BATCH, PYTHON

_LARGEST = 16 << 20
"""Bytes of what all checks of one machine print."""


def command_of(commands: Sequence[str], *, limit_s: float) -> str:
    """The one command that runs all of them side by side.

    Args:
        commands: For ``/bin/sh``; they must not depend on each other.
        limit_s: Seconds all of them have together.
    """
    return shlex.join(
        [*PYTHON, BATCH, f"{limit_s:g}", json.dumps([_program(command) or command for command in commands])]
    )


def _program(command: str) -> list[str] | None:
    """The source and arguments of a command that only runs a Python program as the batch itself is run."""
    beginning = f"{shlex.join(PYTHON)} "
    return shlex.split(command)[len(PYTHON) :] if command.startswith(beginning) else None


def answers_of(commands: Sequence[str], completed: Completed) -> dict[str, Answer]:
    """What each command answered.

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
