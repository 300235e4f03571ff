"""``hermesops identity``: the certificates of machines, and the service that renews them."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.listener import inherited, listen, serve_until_signal
from hermesops.errors import Hint, PartlyDoneError, UsageError
from hermesops.views.access import certificates as certificate_shapes

app = Noun(no_args_is_help=True)

Who = Annotated[
    str, typer.Argument(metavar="USER|MACHINE", help="User, or a machine's id or an unassigned one's name.")
]


@app.command("list")
def list_() -> None:
    """List every machine's newest certificate, by user."""
    container = context.compose()
    now = container.now()
    rows = [
        certificate_shapes.held(holder, certificate, now)
        for holder, certificate in container.machine_certificates.newest()
    ]
    columns = ("user", "machine_name", "cell", "state", "not_after", "serial")
    table("identity-list", "certificates", columns, rows, "no machine has a certificate yet")


@app.command(lists=True)
def show(who: Who) -> None:
    """Show the certificates of one machine, newest first."""
    container = context.compose()
    now, holder = container.now(), container.machine_certificates.find_holder(who)
    rows = [
        certificate_shapes.certificate(holder.title, certificate, now)
        for certificate in container.machine_certificates.list(holder)
    ]
    columns = ("serial", "state", "not_after", "cell", "issued_at", "why")
    table("identity", "certificates", columns, rows, f"the machine of {holder.title} has none")


@app.command()
def revoke(who: Who, yes: Yes = False, reason: Why = "") -> None:
    """Revoke a machine's certificate: no key for its data, no renewal. Its agent runs on until it restarts."""
    container = context.compose()
    holder = container.machine_certificates.find_holder(who)
    agree(
        f"This revokes the identity of the machine of {holder.title} in environment {container.env.name}.",
        expect=who,
        spared=f"the machine of {holder.title} in {container.env.name} is trusted as before",
        yes=yes,
    )
    count = container.machine_certificates.revoke(holder, reason=reason)
    words = advice(
        f"{holder.title}: {counted(count, 'certificate')} revoked;", ("identity", "renew", who), "gives it another"
    )
    result("identity-revoked", certificate_shapes.revoked(holder, count), [words])


@app.command(waits=True)
def renew(
    who: Annotated[str, typer.Argument(metavar="USER|MACHINE", help="User, or a machine's id or name.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every machine, one after the other.")] = False,
) -> None:
    """Give a machine a new certificate through the toolbox, also after its last one was revoked or expired."""
    if bool(who) == everything:
        raise UsageError("name a user or a machine, or --all", hint=Hint(("identity", "list")))
    container = context.compose()
    if everything:
        problems = context.run_connected(container, lambda connected: connected.certificate_renewal.renew_all())
        rows = [{"machine": title, "problem": problem} for title, problem in problems.items()]
        table("identity-renewed-all", "machines", ("machine", "problem"), rows, "there are no machines")
        if failed := [title for title, problem in problems.items() if problem]:
            raise PartlyDoneError(f"no certificate for {', '.join(failed)}", hint="the same command again")
        return
    holder = container.machine_certificates.find_holder(who)
    certificate = context.run_connected(container, lambda connected: connected.certificate_renewal.renew(holder))
    result(
        "identity-renewed",
        certificate_shapes.renewed(holder, certificate),
        [f"{holder.title}: certificate {certificate.serial}", *certificate.names],
    )


@app.command()
def trust(
    file: Annotated[Path, typer.Argument(dir_okay=False, help="Takes the new key; one that is there is taken.")],
) -> None:
    """Create the key of another authority, trusted beside the current one; secrets set authority.key then uses it."""
    count = context.compose().authority.trust(file)
    lines = [f"authorities trusted: {count}; machines trust them with their next certificate"]
    result("identity-trusted", {"file": str(file), "authorities": count}, lines)


@app.command()
def host(
    hosts: Annotated[
        list[str], typer.Argument(metavar="HOST...", help="Names or addresses by which others reach the host.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Gets the files; nobody else may read it.")],
    client: Annotated[
        str, typer.Option("--client", help="Name of the host's own process, which asks what was revoked.")
    ] = "hermesops-platform",
    anew: Annotated[bool, typer.Option("--anew", help="Also those that last for a month still.")] = False,
    reason: Why = "",
) -> None:
    """Issue the certificates of a platform's host, or renew those that end within 30 days; they last for 90.

    FOLDER gets server.crt and server.key, client.crt and client.key, and authorities.crt: what role
    hermes_platform_monitoring and role hermes_platform_tls are told. In a local world, local up --monitoring does it.
    """
    container = context.compose()
    certificates = container.host_certificates.issue(hosts, out, client=client, anew=anew, why=reason)
    changed = f"wrote {', '.join(certificates.changed)}" if certificates.changed else "all of them are good"
    lines = [
        f"{certificates.folder}: {changed}; the first ends {certificates.not_after:%Y-%m-%d}",
        f"for {', '.join(certificates.names)}",
    ]
    result("identity-host", certificate_shapes.host(certificates), lines)


@app.command()
def serve(
    listen_at: Annotated[str, typer.Option("--listen", metavar="ADDRESS:PORT", help="Where machines reach it.")] = "",
    descriptor: Annotated[int, typer.Option("--socket", hidden=True)] = -1,
    date_shift: Annotated[Path | None, typer.Option("--date-shift", hidden=True)] = None,
) -> None:
    """Answer machines over mutual TLS until a signal stops it: renewals, and keys of data. Logs JSON on stderr.

    It needs the registry and the authority's key, and no controller.
    """
    container = context.compose(logs_all=True)
    server = inherited(descriptor) if descriptor >= 0 else listen(listen_at, "identity", "serve")
    clock = time.time
    if date_shift is not None:  # the local world's, which makes the fault of a wrong time with it
        from hermesops.localcloud.faults.date_shift import shifted_time

        clock = partial(shifted_time, date_shift)
    serving = container.authority.serve(server, container.certificates, clock)
    context.run(serve_until_signal(server, serving, "answering machines"))
