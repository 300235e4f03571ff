"""How a command answers: one JSON object on stdout, one line on stderr when something is wrong, and an exit code."""

import json
from collections.abc import Callable
from typing import Any, TextIO

from hermesops.wire.errors import ExitCode, NodeError

CommandAnswer = tuple[dict[str, Any], ExitCode]


def printed(command: Callable[[], CommandAnswer | None], stdout: TextIO, stderr: TextIO) -> int:
    """Print the answer of a command, or its error; return the exit code. A ``None`` answer was already printed."""
    try:
        answered = command()
    except NodeError as error:
        answered = {"error": str(error), "kind": type(error).__name__}, error.exit_code
    except OSError as error:
        answered = {"error": str(error), "kind": "OSError"}, ExitCode.NOT_READY
    if answered is None:
        return ExitCode.OK
    answer, code = answered
    if "error" in answer:
        stderr.write(f"hermes-node: {answer['error']}\n")
    stdout.write(json.dumps(answer, sort_keys=True) + "\n")
    return code
