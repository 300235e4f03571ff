"""The program of a platform's stack for a run of Pulumi's own CLI by an operator."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermesops.errors import Hint, UsageError
from hermesops.infra.engine.cli_workspace import refuse_other_seal
from hermesops.infra.engine.configuration import backend_of
from hermesops.infra.stacks.platform.spec import PROJECT
from hermesops.model.stack import StackRef
from hermesops.platform.aws.program import aws_program
from hermesops.settings.environment import Environment


def program_by_hand(stack: str) -> Callable[[], Any]:
    """The program of the stack of an environment's platform.

    Args:
        stack: Named as the environment.

    Raises:
        UsageError: The environment is not on AWS, or settings or the stack's file are incomplete.
        RefusedError: The run would seal the state with a passphrase that is not the environment's.
    """
    env = Environment.load(stack)
    if env.is_local:
        raise UsageError(
            "the platform of a local world is not run by Pulumi's CLI", hint=Hint(("stack", "up", "platform"))
        )
    backend = backend_of(env)
    program = aws_program(env, backend)
    refuse_other_seal(backend, StackRef(PROJECT, stack), Path.cwd(), env.variables)
    return program
