"""Options of lists that are shown again and again."""

from typing import Annotated

import typer

Watch = Annotated[
    bool,
    typer.Option(
        "--watch", help="Redraw it on a terminal until Ctrl-C; in a pipe, print the list, then a line for each change."
    ),
]
Every = Annotated[str, typer.Option(help="With --watch: how often, as 5s.")]
