"""``hermesops console``: the operators' pages, for this computer's browser, or as a service for several operators."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hermesops.base.extras import Extra, require
from hermesops.cli import context
from hermesops.cli.console import Why, is_json, result
from hermesops.cli.groups.noun import Group, Noun
from hermesops.cli.listener import inherited, listen, serve_until_signal

_HELP = frozenset({"--help", "-h"})


class _Opening(Group):
    """The group; without a verb it opens the console of this computer."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Click does not type it
        """Read the words behind ``console``."""
        has_verb = bool(args) and (args[0] in _HELP or not args[0].startswith("-"))
        return super().parse_args(ctx, args if has_verb else ["open", *args])


app = Noun(cls=_Opening)


@app.command("open")
def open_(
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in this computer's browser.")] = True,
) -> None:
    """Serve the console to this computer's browser until Ctrl-C; hermesops console alone does the same.

    The console listens on a random port of 127.0.0.1 and acts with your rights. The printed address has a token that
    works once, for one browser. Each change shows its preview and its command first, and is audited as yours, via
    console. Operations that still run at the end are left to the workers.
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


@app.command()
def serve(
    bind: Annotated[
        str, typer.Option(metavar="ADDRESS:PORT", help="Address to listen on, without TLS.")
    ] = "127.0.0.1:8653",
    descriptor: Annotated[
        int, typer.Option("--socket", help="Number of a listening socket in the place of --bind.", hidden=True)
    ] = -1,
) -> None:
    """Serve the console to operators of console.origin until a signal stops it. Logs JSON on stderr.

    Operators sign in at console.issuer, whose groups give them a role: viewer, operator or admin. The process reads
    the registry by a role of its own and holds no key; workers verify the operator and carry out the requests.
    """
    require(Extra.CONSOLE, "console serve")
    from hermesops.app.console_container import ConsoleContainer
    from hermesops.console.operators.serve import serve as serve_console

    given = context.compose(logs_all=True)
    container = ConsoleContainer(given.env, given.report, given.warn)
    server = inherited(descriptor) if descriptor >= 0 else listen(bind, "console", "serve")
    context.run(serve_until_signal(server, serve_console(container, server), "the console"))


@app.command()
def credentials(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Gets the files; nobody else may read it.")],
    reason: Why = "",
) -> None:
    """Issue the certificate with which the served console of a platform's host asks monitoring.

    FOLDER gets client.crt and client.key, for 90 days; a certificate that lasts for a month stays. It opens figures and
    alerts, no log of an agent, and nothing of the registry. Roles of a host on AWS run this there. stack up platform
    does it for a local world's host.
    """
    from hermesops.platform.parts.console import PROCESS
    from hermesops.views.access import certificates as shapes

    issued = context.compose().host_certificates.issue_client(PROCESS, out, why=reason)
    changed = f"wrote {', '.join(issued.changed)}" if issued.changed else "the certificate is good"
    lines = [f"{issued.folder}: {changed}; it ends on {issued.not_after:%Y-%m-%d}"]
    result("console-credentials", shapes.host(issued), lines)
