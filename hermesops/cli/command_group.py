"""A noun of the command line: a group whose commands all take ``--json`` and ``--quiet``."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer

from hermesops.cli.console import Json, Quiet

F = TypeVar("F", bound=Callable[..., Any])

_OUTPUT = (
    inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json),
    inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Quiet),
)
"""Both act in their callbacks, before the command runs."""


class Noun(typer.Typer):
    """A group of commands about one thing."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[F], F]:  # noqa: ANN401 - Typer's own options
        """Register a command, as ``typer.Typer.command`` does."""
        register = super().command(name, **options)

        def add(function: F) -> F:
            register(_with_output_options(function))
            return function

        return add


def _with_output_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*, json: bool, quiet: bool, **given: Any) -> Any:  # noqa: ANN401, ARG001 - the command's own arguments
        return function(**given)

    signature = inspect.signature(function)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[*signature.parameters.values(), *_OUTPUT]
    )
    call.__annotations__ = {**function.__annotations__, **{one.name: one.annotation for one in _OUTPUT}}
    return call
