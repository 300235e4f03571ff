"""A noun of the command line: a group whose commands take ``--json`` and ``--quiet``, and its lists ``--sort`` too."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

import typer
from typer.core import TyperGroup

from hermesops.cli.printing import output

F = TypeVar("F", bound=Callable[..., Any])


def _option(name: str, annotation: object, default: object) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_BOTH = (_option("json", output.Json, default=False), _option("quiet", output.Quiet, default=False))
_OUTPUT = (_option("output", output.Output, None), *_BOTH)
_LIST_OUTPUT = (
    _option("sort", output.Sort, ""),
    _option("filter", output.Filter, None),
    _option("output", output.ListOutput, None),
    *_BOTH,
)
_TIMEOUT = _option("timeout", output.Timeout, "")
"""All act in their callbacks, before the command runs."""

_LEAVES_WORK = frozenset({"no_wait", "detach", "wait"})
"""Parameters of commands that run operations or rollouts: those take ``--timeout`` in any case."""


class Group(TyperGroup):
    """A group with help that has the whole summary of each command, however long."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002 - Click does not type it
        """Write the commands with their summaries."""
        shown = [(name, command) for name, command in self.commands.items() if not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(command)) for name, command in shown])


class Noun(typer.Typer):
    """A group of commands about one thing."""

    def __init__(self, *, cls: type[TyperGroup] = Group, **options: Any) -> None:  # noqa: ANN401 - Typer's own options
        super().__init__(cls=cls, **options)

    def command(
        self,
        name: str | None = None,
        *,
        lists: bool = False,
        waits: bool = False,
        **options: Any,  # noqa: ANN401 - as above
    ) -> Callable[[F], F]:
        """Register a command, as ``typer.Typer.command`` does.

        Args:
            name: Its name; a command that is called ``list`` lists.
            lists: Its result is a table, which people sort and filter.
            waits: It takes ``--timeout``, as all commands do that run operations.
        """
        register = super().command(name, **options)
        added = _LIST_OUTPUT if lists or name == "list" else _OUTPUT

        def add(function: F) -> F:
            runs = waits or not _LEAVES_WORK.isdisjoint(inspect.signature(function).parameters)
            register(_with_options(function, (_TIMEOUT, *added) if runs else added))
            return function

        return add


def _with_options(function: Callable[..., Any], added: tuple[inspect.Parameter, ...]) -> Callable[..., Any]:
    names = {parameter.name for parameter in added}

    @functools.wraps(function)
    def call(**options: Any) -> Any:  # noqa: ANN401 - the command's own arguments
        return function(**{name: value for name, value in options.items() if name not in names})

    signature = inspect.signature(function)
    parameters = [*signature.parameters.values(), *added]
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {**function.__annotations__, **{parameter.name: parameter.annotation for parameter in added}}
    return call


def _summary(command: Any) -> str:  # noqa: ANN401 - Click does not type it
    """The first sentence of a command's help."""
    return str(command.get_short_help_str(limit=1_000))
