"""``hermesops console``: the operators' pages, for this computer's browser."""

from typing import Annotated

import typer

from hermesops.base.extras import Extra, require
from hermesops.cli import context
from hermesops.cli.console import is_json, result
from hermesops.cli.listener import listen, serve_until_signal


def console(
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in this computer's browser.")] = True,
) -> None:
    """Serve the console, pages of the fleet for operators, until Ctrl-C.

    It listens on a random port of 127.0.0.1 and acts with your rights. Its address has a token that counts once, for
    one browser. A change shows its preview and its command first, and is audited as yours, via console. Operations
    that still run at the end are left to the workers.
    """
    require(Extra.CONSOLE, "the console")
    import webbrowser

    from hermesops.console.serve import gate_of, serve
    from hermesops.observability.browser import LOOPBACK

    container = context.compose()

    async def work() -> None:
        listener = listen(f"{LOOPBACK}:0", "console")
        gate = gate_of(listener)
        result("console", {"url": gate.url}, [gate.url])
        if browser and not is_json():
            webbrowser.open(gate.url)
        await serve_until_signal(listener, serve(container, listener, gate, context.chosen()), "the console")

    context.run(work())
