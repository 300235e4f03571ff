"""``hermesops relay``: the service by which the platform's services reach agents, and which services may use it.

It carries the agent's API and nothing else of a machine. It alone holds the tokens that open machines for that.
"""

from pathlib import Path
from typing import Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, require_reason, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.listener import listen, serve_until_signal
from hermesops.cli.options import files
from hermesops.errors import UsageError
from hermesops.views.access import certificates as certificate_shapes

app = Noun(no_args_is_help=True)

Service = Annotated[str, typer.Argument(metavar="SERVICE", help="Lower-case letters, digits and -, as message-router.")]


@app.command()
def serve(
    listen_at: Annotated[
        str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where services reach it.")
    ] = "127.0.0.1:8644",
    name: Annotated[
        list[str] | None,
        typer.Option("--name", help="Name or address by which services find it; repeated for more.  [--listen's]"),
    ] = None,
    grace: Annotated[float, typer.Option(min=0, help="Seconds that answers have to end after a signal.")] = 30,
) -> None:
    """Carry requests to agents over mutual TLS until a signal stops it. Logs JSON on stderr.

    It needs the registry and the authority's key, a worker that renews tokens, and no key of JustAVPS's.
    SIGTERM ends it after the answers under way; a second one cuts them short.
    """
    container = context.compose(logs_all=True)
    server = listen(listen_at, "relay", "serve")
    hosts = name or [str(server.getsockname()[0])]
    context.run(serve_until_signal(server, container.relay.serve(server, hosts, grace_s=grace), "relaying"))


@app.command()
def admit(
    service: Service,
    request: Annotated[str, typer.Option(help="File of its certificate signing request (EC, P-256); - for stdin.")],
    to: Annotated[Path, typer.Option(file_okay=False, help="Folder that takes certificate.pem and authority.pem.")],
    reason: Why = "",
) -> None:
    """Admit a service to the relay: sign its certificate. Its key stays where it was made.

    The service renews it by itself, with POST /certificate to the relay, before it runs out.
    """
    text = files.read(request)
    admitted = context.compose().callers.admit(service, text, why=reason)
    try:
        to.mkdir(parents=True, exist_ok=True)
        (to / "certificate.pem").write_text(admitted.certificate)
        (to / "authority.pem").write_text(admitted.authorities)
    except OSError as error:
        raise UsageError(f"cannot write to {to}: {error.strerror}") from error
    words = f"{service} may call the relay until {admitted.not_after:%Y-%m-%d %H:%M} UTC, and renews that by itself"
    result("relay-admitted", certificate_shapes.admitted(service, admitted, to), [words])


@app.command("list")
def list_() -> None:
    """List the services' certificates, the newest of each first."""
    container = context.compose()
    now = container.now()
    rows = [certificate_shapes.caller(caller, now) for caller in container.caller_directory.list()]
    columns = ("service", "state", "not_after", "serial", "why")
    table("relay-callers", "certificates", columns, rows, "no service may call the relay")


@app.command()
def revoke(service: Service, yes: Yes = False, reason: Why = "") -> None:
    """Revoke a service's certificate; the relay refuses its next request."""
    require_reason(reason, "relay", "revoke", service)
    container = context.compose()
    agree(
        f"This keeps service {service} from all agents in environment {container.env.name}.",
        expect=service,
        spared=f"{service} may call the relay as before",
        yes=yes,
    )
    count = container.caller_directory.revoke(service, why=reason)
    again = advice(("relay", "admit", service, "--request", "FILE", "--to", "FOLDER"))
    words = f"{service}: {counted(count, 'certificate')} revoked; {again} gives it another"
    result("relay-revoked", {"service": service, "certificates": count}, [words])
