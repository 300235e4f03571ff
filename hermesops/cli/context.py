"""The environment of this command, its container, and the run of its coroutines."""

import functools
import gc
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops.cli.printing import terminal

if TYPE_CHECKING:
    from pathlib import Path

    from hermesops.agents.operator_requests.actions import RequestedAction
    from hermesops.app import Container
    from hermesops.app.connected import Connected
    from hermesops.app.platform import PlatformParts
    from hermesops.base.narration import Reporter
    from hermesops.model.access.operator_request import OperatorRequest
    from hermesops.settings.environment import Environment

T = TypeVar("T")

_OF_EACH = frozenset({"event", "level", "timestamp", "exception"})
"""Fields of an entry of the log that are no news to people, or are shown apart."""


@dataclass
class _Chosen:
    """The global options; ``level``, from which on the log is shown, is ``None`` until objects were composed.

    ``is_service`` is whether the command's stderr is a log that programs read.
    """

    environment: str = ""
    verbose: bool = False
    report: "Reporter" = lambda _: None
    level: int | None = None
    is_service: bool = False


_chosen = _Chosen()


def select(name: str, *, verbose: bool, report: "Reporter") -> None:
    """Remember ``--env`` (empty: ``HERMESOPS_ENV`` or the default), ``--verbose``, and the reporter of narration."""
    _chosen.environment, _chosen.verbose, _chosen.report = name, verbose, report


def environment() -> "Environment":
    """Read the settings of the selected environment."""
    from hermesops.settings.environment import Environment

    return Environment.load(_chosen.environment)


def folders() -> "tuple[Path, ...]":
    """Folders of this environment that files are written to; none where its settings cannot be read."""
    from hermesops.errors import HermesError

    try:
        env = environment()
    except HermesError:
        return ()
    return env.folder, env.cache


def chosen() -> str:
    """The environment that commands have to name: the one of ``--env``, else of ``HERMESOPS_ENV`` but the default."""
    # An error may come before settings were imported, which takes long.
    named = os.environ.get("HERMESOPS_ENV", "")  # noqa: TID251 - as the line above says
    return _chosen.environment or ("" if named == "local" else named)


def why_chosen() -> str:
    """The option or variable that chose the environment."""
    if _chosen.environment:
        return "--env"
    return "HERMESOPS_ENV" if environment().variables.get("HERMESOPS_ENV") else "default"


def compose(*, report: "Reporter | None" = None, logs_all: bool = False) -> "Container":
    """The objects of the selected environment.

    Args:
        report: Takes narration; by default, it goes to stderr.
        logs_all: Log at level INFO, not only warnings, and as JSON where no terminal reads it.

    Raises:
        UsageError: There is no such environment.
    """
    from hermesops.app import Container
    from hermesops.automation.doctor.environments import require_known

    choose_log(logs_all=logs_all)
    env = environment()
    require_known(env)
    container = Container(env, report or _chosen.report, _warn)
    container.find_operator_action = _find_operator_action
    return container


def _find_operator_action(connected: "Connected", request: "OperatorRequest") -> "RequestedAction | None":
    """The action of a row of the served console, in the console's own table; workers begin it."""
    from hermesops.console.actions.served import action_of

    return action_of(connected, request)


def choose_log(*, logs_all: bool) -> None:
    """Choose the lowest level of the log, before ``run``.

    Args:
        logs_all: Log at level INFO, not only warnings, and as JSON where no terminal reads it.
    """
    _chosen.level = logging.DEBUG if _chosen.verbose else logging.INFO if logs_all else logging.WARNING
    _chosen.is_service = logs_all


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine to its end; Ctrl-C cancels it and lets it clean up first."""
    import asyncio

    from hermesops.cli.options.time_limit import limit

    _open_log(logging.WARNING if _chosen.level is None else _chosen.level, as_json=_chosen.is_service)
    gc.freeze()
    gc.enable()
    return asyncio.run(limit.keep(work))


def run_connected(container: "Container", work: "Callable[[Connected], Awaitable[T]]") -> T:
    """Open the connections of an environment, run work with them, and close them."""

    async def connected() -> T:
        async with container.connect() as connected:
            return await work(connected)

    return run(connected())


def run_platform(container: "Container", work: "Callable[[PlatformParts], Awaitable[T]]") -> T:
    """Run work with the platform of a local world; no registry is needed."""

    async def connected() -> T:
        async with container.platform() as parts:
            return await work(parts)

    return run(connected())


def _warn(event: str, **fields: object) -> None:
    from hermesops.base.narration import warn

    _open_log(_chosen.level or logging.WARNING, as_json=_chosen.is_service)
    warn(event, **fields)


@functools.cache
def _open_log(level: int, *, as_json: bool) -> None:
    """Send the log from a level on to stderr; as lines for people, or as JSON where no terminal reads it.

    Only before something may be logged: a command that asks the registry alone would wait longest for this.
    """
    import structlog

    from hermesops.base import process_log

    if sys.stderr.isatty():
        rendered = process_log.for_terminal(coloured=terminal.has_colour(sys.stderr))
    elif as_json:
        rendered = process_log.AS_JSON
    else:
        rendered = (structlog.processors.format_exc_info, _as_a_line)
    process_log.open_log(level, rendered)


def _as_a_line(_logger: object, level: str, fields: "MutableMapping[str, Any]") -> str:
    """An entry of the log for people; a traceback follows below it."""
    from hermesops.wire.foreign_text import unbroken

    shown = (f"{name} {unbroken(str(value))}" for name, value in fields.items() if name not in _OF_EACH)
    line = f"{level}: {str(fields['event']).replace('_', ' ')}: {', '.join(shown)}"
    return "\n".join([line, str(fields["exception"])] if "exception" in fields else [line])
