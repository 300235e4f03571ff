"""``hermesops connector``: by which users write to their agents in messengers, as a service.

It holds the bots' tokens and reaches agents through the sockets that they open, and through the relay.
"""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.cli.groups.noun import Noun
from hermesops.cli.listener import inherited, listen, serve_until_signal

app = Noun(no_args_is_help=True)


@app.command()
def serve(
    bind: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where it listens.")] = "127.0.0.1:8652",
    descriptor: Annotated[
        int, typer.Option("--socket", help="Number of a listening socket in the place of --bind.", hidden=True)
    ] = -1,
) -> None:
    """Serve agents' sockets and the messengers' bots until a signal stops it. Logs JSON on stderr, no text of anybody.

    Each message is a row before it is delivered, and each answer one before the agent is told that it is taken. In the
    local world, which starts it beside its stand-ins of vendors, it has TLS of its own.
    """
    from hermesops.connector.serve import serve as serve_connector
    from hermesops.connector.serve import serve_local

    container = context.compose(logs_all=True)
    env = container.env
    server = inherited(descriptor) if descriptor >= 0 else listen(bind, "connector", "serve")
    is_alone = env.is_local and not env.settings.relay.url
    serving = serve_local(container, server) if is_alone else serve_connector(env, server)
    context.run(serve_until_signal(server, serving, "the connector"))


@app.command()
def status() -> None:
    """Show what alerts about messengers count: sockets, messages and answers that wait, bots that are blocked.

    Messages count after a minute, answers after 5; delivered and answered ones of the last 5 minutes. Counts are of
    users, and nothing that anybody said is shown.
    """
    from hermesops.cli.views import messages as view
    from hermesops.views.users import messages as shapes

    figures = context.compose().message_directory.figures()
    result("connector-status", shapes.status(figures), view.status_lines(figures))
