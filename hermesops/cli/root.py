"""The root command: global options, the groups, and the boundary where errors become exit codes."""

import errno
import traceback
from contextlib import suppress
from typing import Annotated, Any

import typer

from hermesops import __version__
from hermesops.cli import context, interrupts
from hermesops.cli.console import clear, error, say
from hermesops.cli.groups.lazy import Nouns
from hermesops.cli.groups.noun import Noun
from hermesops.cli.printing.streams import StdoutLostError
from hermesops.errors import HermesError, Hint, RefusedError, UsageError

_WIDEST_HELP = 120
"""Columns up to which help uses a terminal; longer lines are hard to read."""

app = Noun(
    name="hermesops",
    cls=Nouns,
    help="A personal hermes-agent for every user, on a machine of their own, kept running.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST_HELP},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"hermesops {__version__}")
        raise typer.Exit


_Misuse = typer.BadParameter.__mro__[1]
"""Typer's error for unusable arguments; it re-exports only this child of it."""


_COMPUTER = frozenset({errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EMFILE, errno.ENFILE})
"""Errors of the operating system that any program can meet, beside full disks; any other OSError is a bug."""


@app.callback()
def select_environment(
    env: Annotated[str, typer.Option("--env", help="local, staging, production …", show_default=False)] = "",
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every call on stderr.")] = False,
    version: Annotated[  # noqa: ARG001 - acts in its callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Remember which environment this command is about."""
    context.select(env, verbose=verbose, report=say)


def run() -> int:
    """Run the command line given by the process's arguments and return its exit code."""
    try:
        code = app(standalone_mode=False)
    except Exception as failure:  # noqa: BLE001 - the process edge: every error gets its exit code here
        return _report(failure)
    except SystemExit:
        # Typer's answer to a reader of stdout that has gone (| head): the command was done.
        return 0
    return code if isinstance(code, int) else 0


def _report(failure: Exception) -> int:
    match failure:
        case HermesError():
            with suppress(BrokenPipeError, StdoutLostError):  # the exit code remains
                error(failure)
            return failure.exit_code
        case typer.Exit():
            return failure.exit_code
        case interrupts.InterruptedByOperatorError() | typer.Abort():
            clear()
            return interrupts.say()
        case StdoutLostError():
            return 0  # ``main`` says so
        case _ if isinstance(failure, _Misuse):
            return _misuse(failure)
        case OSError() if refusal := _refusal_of_the_computer(failure):
            return _report(refusal)
        case _:
            traceback.print_exception(failure)
            say("this is a bug in hermesops; the traceback above belongs in its report")
            return 1


def _refusal_of_the_computer(failure: OSError) -> HermesError | None:
    from hermesops.base.files import disk

    if disk.is_refusal(failure):
        return disk.refused_write(failure, context.folders())
    if failure.errno not in _COMPUTER:
        return None
    where = failure.filename or "this computer"
    return RefusedError(
        f"{where}: {failure.strerror}",
        hint=Hint("HERMESOPS_HOME and HERMESOPS_CACHE say where files are kept;", ("doctor",), "checks the rest"),
    )


def _misuse(failure: Any) -> int:  # noqa: ANN401 - its class is private to Typer
    message = failure.format_message().replace("Value error, ", "")  # pydantic's, by which Typer reads values
    if "\n" in message:  # a group without a command answers with its whole help
        say(message)
    else:
        hint = f"{failure.ctx.command_path} --help" if failure.ctx else ""
        error(UsageError(message, hint=hint))
    return UsageError.exit_code
