"""``hermesops api``: the users' API and chat page, as a service, and its state.

It reaches agents through the relay alone, and holds no key of the vendor's.
"""

import json
from pathlib import Path
from typing import Annotated

import typer

from hermesops.base.extras import Extra, require
from hermesops.cli import context
from hermesops.cli.console import Why, advice, result
from hermesops.cli.groups.noun import Noun
from hermesops.cli.listener import inherited, listen, serve_until_signal

app = Noun(no_args_is_help=True)


@app.command()
def serve(
    bind: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where it listens, in clear.")] = "127.0.0.1:8650",
    descriptor: Annotated[
        int, typer.Option("--socket", help="Number of a listening socket in the place of --bind.", hidden=True)
    ] = -1,
) -> None:
    """Serve users' requests and the chat page until a signal stops it. Logs JSON on stderr, no address of a request.

    It reaches agents through the relay at relay.url, by a certificate that it renews there. In the local world it is
    its own relay, and users sign in at the world's issuer.
    """
    require(Extra.PLATFORM, "api serve")
    from hermesops.api.serve import serve as serve_api

    container = context.compose(logs_all=True)
    server = inherited(descriptor) if descriptor >= 0 else listen(bind, "api", "serve")
    context.run(serve_until_signal(server, serve_api(container, server), "the users' API"))


@app.command()
def status() -> None:
    """Show the state of the users' API: processes, slow users, webhooks, connections, turns that nobody carries.

    Counts are of the last 5 minutes; expired connections of the last day. Nothing that a user said is shown.
    """
    from hermesops.cli.views import api as view
    from hermesops.views.users import api as shapes

    half = context.compose().api_status.read()
    result("api-status", shapes.status(half), view.status_lines(half))


@app.command()
def connections(
    bind: Annotated[str, typer.Option(metavar="ADDRESS:PORT", help="Where it listens, in clear.")] = "127.0.0.1:8651",
    descriptor: Annotated[
        int, typer.Option("--socket", help="Number of a listening socket in the place of --bind.", hidden=True)
    ] = -1,
) -> None:
    """Serve users' connections and agents' calls to them until a signal stops it, outside the local world.

    It alone of the processes that the internet reaches has the key of the project at Composio, and it reaches no agent.
    """
    require(Extra.PLATFORM, "api connections")
    from hermesops.api.serve_connections import serve as serve_connections

    env = context.compose(logs_all=True).env
    server = inherited(descriptor) if descriptor >= 0 else listen(bind, "api", "connections")
    context.run(serve_until_signal(server, serve_connections(env, server), "connections"))


@app.command()
def credentials(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Gets the files; nobody else may read it.")],
    reason: Why = "",
) -> None:
    """Issue what the users' processes of a platform's host need: keys, and certificates for the relay.

    FOLDER gets messages.key, billing.secret, connections.key, telegram.secret, slack.secret, whatsapp.secret and
    whatsapp.key, empty where the environment has none, and relay-1.pem and relay-2.pem; with a messenger's bot in the
    settings also telegram.token, slack.token, whatsapp.token, discord.token, connector.key and relay-connector.pem. A
    certificate that counts stays. Roles of a host on AWS run it there. stack up platform does this for a local
    world's host.
    """
    from hermesops.views.users import api as shapes

    container = context.compose()
    issued = context.run(container.user_credentials.issue(out, why=reason))
    changed = f"wrote {', '.join(issued.changed)}" if issued.changed else "all of them are good"
    lines = [f"{issued.folder}: {changed}"]
    lines += [advice(f"there is no {name}:", ("secrets", "set", name, "--from", "FILE")) for name in issued.missing]
    result("api-credentials", shapes.credentials(issued), lines)


@app.command()
def openapi() -> None:
    """Print the description of the API, OpenAPI 3.1."""
    require(Extra.PLATFORM, "api openapi")
    from hermesops.api.application import openapi as described

    document = described()
    result("api-openapi", {"openapi": document}, [json.dumps(document, indent=2)])
