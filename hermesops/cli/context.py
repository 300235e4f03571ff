"""The environment this command is about, and the objects composed for it, made when first asked for."""

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hermesops.app import App
    from hermesops.settings import Environment

T = TypeVar("T")

_selected = ""


def select(name: str) -> None:
    """Remember ``--env``; empty leaves the choice to ``HERMESOPS_ENV`` and the default."""
    global _selected  # noqa: PLW0603 - one process, one command, one environment
    _selected = name


def environment() -> "Environment":
    """Read the settings of the selected environment."""
    from hermesops.settings import Environment

    return Environment.load(_selected)


def compose() -> "App":
    """The objects of the selected environment."""
    from hermesops.app import App
    from hermesops.cli.console import say

    return App(environment(), say)


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run one coroutine to its end; Ctrl-C cancels it and lets it clean up first."""
    return asyncio.run(work)
