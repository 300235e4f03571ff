"""The program of a platform's stack that an operator runs with Pulumi's own CLI."""

from collections.abc import Callable
from typing import Any

import pulumi

from hermesops.infra.engine.by_hand import run_errors
from hermesops.platform.aws.by_hand import program_by_hand


def platform_program() -> Callable[[], Any]:
    """The program of the stack that Pulumi's own CLI runs, for ``pulumi/platform/__main__.py``.

    Raises:
        RunError: As ``program_by_hand`` and ``Environment.load``.
    """
    with run_errors():
        return program_by_hand(pulumi.get_stack())
