"""Options of lists that are shown again and again; lists show the registry's part where another does not answer."""

from collections.abc import Coroutine
from typing import Annotated, Any

import typer

from hermesops.cli import context
from hermesops.cli.console import advice, say
from hermesops.errors import UnavailableError

Watch = Annotated[
    bool,
    typer.Option(
        "--watch", help="Redraw it on a terminal until Ctrl-C; in a pipe, print the list, then a line for each change."
    ),
]
Every = Annotated[str, typer.Option(help="With --watch: how often, as 5s.")]


def run_if_answered(question: Coroutine[Any, Any, object]) -> bool:
    """Ask JustAVPS or agents before a list is shown; return whether they answered.

    Where they do not, narrate it: the list has the rest, and its command ends as partly done.
    """
    try:
        context.run(question)
    except UnavailableError as error:
        say(f"JustAVPS is not asked ({error.message}): the list has what was recorded before")
        if error.hint:
            say(f"hint: {advice(error.hint)}")
        return False
    return True
