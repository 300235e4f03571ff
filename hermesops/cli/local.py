"""``hermesops local``: the local world, and what shall go wrong in it."""

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Yes, confirm, is_json, result, say, table
from hermesops.cli.noun import Noun
from hermesops.errors import RefusedError

if TYPE_CHECKING:
    from hermesops.localcloud.world import World, WorldStatus

app = Noun(help="The local world: JustAVPS's API and real machines on this computer.", no_args_is_help=True)
fault = Noun(help="The vendor's known faults, on order.", no_args_is_help=True)
app.add_typer(fault, name="fault")


@app.command()
def up() -> None:
    """Start the local world, or find it running; its machines run again."""
    environment = context.environment()
    command = [sys.executable, "-m", "hermesops", "--env", environment.name, "local", "serve"]
    _show(context.run(_world().up(command, tell=say)))


@app.command()
def down(
    purge: Annotated[bool, typer.Option("--purge", help="Remove machines, images and every other trace.")] = False,
    yes: Yes = False,
) -> None:
    """Stop the local world's server and machines."""
    environment = context.environment()
    if purge and not yes and sys.stdin.isatty():
        question = f"This removes every machine and image of environment {environment.name} on this computer."
        if not confirm(question, expect=environment.name):
            raise RefusedError("not confirmed: nothing was touched", hint="--yes confirms beforehand")
    context.run(_world().down(purge=purge, tell=say))
    result("local-down", {"purged": purge})


@app.command()
def status() -> None:
    """Show where the local world is reachable and what is in it."""
    _show(context.run(_world().status()))


@app.command(hidden=True)
def serve() -> None:
    """Be the local world's server; ``up`` starts this."""
    from hermesops.localcloud.router import Upstream

    settings = context.environment().settings
    key = settings.model_api_key.get_secret_value() if settings.model_api_key else ""
    upstream = Upstream(settings.model_base_url, key) if settings.model_base_url else None
    context.run(_world().serve(tell=say, upstream=upstream))


@fault.command("set")
def set_(
    kind: Annotated[str, typer.Argument(help="Which; an unknown one lists them all.")],
    machine: Annotated[str, typer.Option("--machine", help="Name, slug or id; empty: any.")] = "",
    times: Annotated[int, typer.Option("--times", min=1, help="How often it happens.")] = 1,
    method: Annotated[str, typer.Option("--method", help="HTTP method it is for; empty: any.")] = "",
    path: Annotated[str, typer.Option("--path", help="Beginning of the path below /api/v1; empty: any.")] = "",
    status: Annotated[int, typer.Option("--status", help="Status of a server-error.")] = 500,
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="Silence that a silence-cut cuts.")] = 100,
) -> None:
    """Make something go wrong, a number of times."""
    order = _world().set_fault(
        kind, machine=machine, times=times, method=method, path=path, status=status, seconds=seconds
    )
    made = context.run(order)
    result("local-fault", {"fault": made}, [f"{made['kind']}: waits to happen {made['times']} times"])


@fault.command("list")
def list_() -> None:
    """List faults that have not all happened yet."""
    rows = context.run(_world().faults())
    table("local-faults", "faults", ("kind", "machine", "times", "method", "path"), rows, "no fault waits")


@fault.command()
def clear() -> None:
    """Forget all faults."""
    count = context.run(_world().clear_faults())
    result("local-faults-cleared", {"cleared": count}, [f"{count} faults forgotten"])


def _world() -> "World":
    from hermesops.assets import folder
    from hermesops.localcloud.nspawn.base import find_definition
    from hermesops.localcloud.world import World

    environment = context.environment()
    if not environment.is_local:
        raise RefusedError(f"environment {environment.name} is not this computer's", hint="--env local")
    definition = find_definition(folder("images"), environment.settings.local_base)
    return World(environment.world, base_definition=definition, bases=environment.cache / "bases")


def _show(status: "WorldStatus") -> None:
    if is_json():
        result("local-status", asdict(status))
        return
    if not status.is_up:
        result("local-status", {}, ["the local world is down"])
        return
    lines = [
        f"API     {status.api_url}  (key in {status.api_key_file})",
        f"models  {status.model_base_url}",
        f"base    {status.base}",
        f"room    for {status.room} more machines: {status.figures}",
        f"images  {len(status.images)}",
        "",
    ]
    result("local-status", {}, lines)
    table("local-status", "machines", ("name", "status", "slug", "ip", "message"), status.machines, "no machines")
