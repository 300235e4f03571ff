"""The program of a platform's stack that an operator runs with Pulumi's own CLI."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pulumi

from hermesops.app.container_parts.aws_program import aws_program
from hermesops.app.container_parts.unconnected import Unconnected
from hermesops.errors import HermesError, Hint, UsageError
from hermesops.infra.engine.cli_workspace import refuse_other_seal
from hermesops.infra.stacks.platform.spec import PROJECT
from hermesops.model.stack import StackRef
from hermesops.settings.environment import Environment


def platform_program() -> Callable[[], Any]:
    """The program of the stack that Pulumi's own CLI is running, for ``pulumi/platform/__main__.py``.

    Raises:
        RunError: The stack is of no environment on AWS, settings or the stack's file say too little, or the run would
            seal the state with a passphrase that is not the environment's. Pulumi shows it as one line.
    """
    try:
        return _program_of(pulumi.get_stack())
    except HermesError as error:
        raise pulumi.RunError(f"{error.message}: {error.hint}" if error.hint else error.message) from None


def _program_of(stack: str) -> Callable[[], Any]:
    env = Environment.load(stack)
    if env.is_local:
        raise UsageError("the platform of a local world is not Pulumi's alone", hint=Hint(("stack", "up", "platform")))
    app = Unconnected(env, lambda _: None)
    program = aws_program(env, app.pulumi_backend)
    refuse_other_seal(app.pulumi_backend, StackRef(PROJECT, stack), Path.cwd(), env.variables)
    return program
