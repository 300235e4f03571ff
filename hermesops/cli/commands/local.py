"""``hermesops local``: the vendor's API and machines on this computer, and faults in it."""

import sys
from dataclasses import asdict
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Yes, advice, agree, is_json, result, say, table
from hermesops.cli.groups.noun import Noun

if TYPE_CHECKING:
    from hermesops.base.progress import Progress
    from hermesops.localcloud.server.control_client import WorldStatus
    from hermesops.localcloud.world.local_world import World
    from hermesops.settings.environment import Environment

app = Noun(no_args_is_help=True)
fault = Noun(help="The vendor's known faults, made to happen.", no_args_is_help=True)
app.add_typer(fault, name="fault")


Driver = Annotated[
    Literal["nspawn", "sim"] | None,
    typer.Option(
        "--driver",
        help="nspawn boots real machines and needs root; sim keeps up to 100,000 as records, with the real hermes-node "
        "and no agent but an echo. Unless given: setting local.driver, else as the world was made.",
        show_default=False,
    ),
]


Monitoring = Annotated[
    bool,
    typer.Option(
        "--monitoring",
        help="Also run the platform's monitoring, on one more machine of it: Prometheus, Alertmanager and Loki.",
    ),
]


Vendors = Annotated[
    bool,
    typer.Option(
        "--vendors",
        help="Also run stand-ins of vendors, from now on: Stripe's pages, where nobody pays, messengers with a "
        "phone, and a model provider for users' own keys.",
    ),
]


@app.command(waits=True)
def up(driver: Driver = None, monitoring: Monitoring = False, vendors: Vendors = False) -> None:
    """Start the local world, or find it running; its machines run again."""
    environment = context.environment()
    command = serve_command(environment.name)
    if driver:
        command += ["--driver", driver]
    from hermesops.platform.local.world import first_start, server_environment

    if monitoring:
        from hermesops.localcloud.world.files import is_simulated
        from hermesops.platform.parts.monitoring import refuse_simulated

        driver_name = driver or environment.settings.local.driver
        refuse_simulated(is_simulated=is_simulated(environment.world, driver_name))
    variables = server_environment(environment)
    progress = _progress(environment, driver)
    report = progress.step if progress else say
    world = _world(driver or "")
    start = partial(world.up, command, environment=variables, report=report, vendors=vendors)
    status = context.run(first_start(world, start, _fetch_ahead, say))
    if progress and progress.count > 1:  # a world that was up already took no time
        progress.end()
    if left_over := context.compose().world_purge.left_over([machine["id"] for machine in status.machines]):
        say(advice(left_over))
    if not monitoring:
        _show(status)
        return
    monitoring_up = context.run_platform(context.compose(), lambda parts: parts.monitoring.up())
    done = (
        f"machine {monitoring_up.machine}: {counted(len(monitoring_up.changed), 'change')}, {monitoring_up.seconds:g} s"
    )
    logs = "" if monitoring_up.logs else "without logs: Loki could not be built"
    lines = [line for line in (done, logs) if line]
    result("local-monitoring", asdict(monitoring_up), [*lines, *monitoring_lines(monitoring_up.url)])


def _fetch_ahead() -> None:
    context.compose().prefetch.run()


def _progress(environment: "Environment", driver: str | None) -> "Progress | None":
    """How far the start of a world of real machines is; a simulated one starts within a second."""
    from hermesops.base.progress import DURATIONS, Durations, Progress
    from hermesops.localcloud.world.files import is_simulated

    if is_simulated(environment.world, driver or environment.settings.local.driver):
        return None
    return Progress("local world", "steps", say, Durations(environment.folder / DURATIONS))


def monitoring_lines(url: str) -> list[str]:
    """Render the commands that make use of monitoring, once it is up."""
    commands = {
        ("monitor",): "watches the fleet until it is stopped; without it an alert says so",
        ("alert", "list"): "shows open alerts, and for each the command of its runbook",
        ("fleet", "status", "--watch"): "shows how each agent is",
        ("fleet", "top"): "shows agents' figures",
    }
    shown = {advice(words): meaning for words, meaning in commands.items()}
    width = max(map(len, shown))
    return [
        f"monitoring at {url}: a certificate of this environment opens it, which hermesops makes for each command",
        *(f"  {command:<{width}}  {meaning}" for command, meaning in shown.items()),
    ]


@app.command()
def down(
    purge: Annotated[
        bool,
        typer.Option("--purge", help="Remove machines, images and backups of it, and end its users in the registry."),
    ] = False,
    yes: Yes = False,
) -> None:
    """Stop the local world's server and machines."""
    if not purge:
        context.run(_world().down(purge=False, report=say))
        result("local-down", {"purged": False})
        return
    name, world_purge = context.environment().name, context.compose().world_purge
    if losses := context.run(world_purge.losses()):
        question = f"This removes the local world of environment {name} for good: {losses}."
        agree(question, expect=name, spared="nothing was touched", yes=yes)
    context.run(world_purge.run())
    result("local-down", {"purged": True})


@app.command()
def status() -> None:
    """Show the addresses and the contents of the local world."""
    _show(context.run(_world().status()))


@app.command(hidden=True)
def serve(driver: Driver = None) -> None:
    """Run the local world's server; ``up`` starts this."""
    from hermesops.base.extras import Extra, missing_extras
    from hermesops.localcloud.world.files import WorldFiles
    from hermesops.platform.local.world import serve_world

    context.choose_log(logs_all=True)
    env = context.environment()
    platform = [sys.executable, "-m", "hermesops", "--env", env.name, "identity", "serve"]
    platform += ["--date-shift", str(WorldFiles(env.world).date_shift)]
    has_api = Extra.PLATFORM not in missing_extras()
    ours = [sys.executable, "-m", "hermesops", "--env", env.name]
    users, connector = ([*ours, "api", "serve"], [*ours, "connector", "serve"]) if has_api else ([], [])
    serving = serve_world(env, driver or "", report=say, platform=platform, users=users, connector=connector)
    context.run(serving)


@fault.command("set")
def set_(
    kind: Annotated[str, typer.Argument(help="Which; see: hermesops local fault kinds.")],
    machine: Annotated[str, typer.Option("--machine", help="Name, slug or id; empty: any.")] = "",
    times: Annotated[
        int | None, typer.Option("--times", help="How often it happens; once unless bounded else.")
    ] = None,
    method: Annotated[str, typer.Option("--method", help="HTTP method it is for; empty: any.")] = "",
    path: Annotated[
        str, typer.Option("--path", help="Beginning of the path below /api/v1, * for one part; empty: any.")
    ] = "",
    status: Annotated[
        int | None, typer.Option("--status", help="Status it answers, where its kind has several.")
    ] = None,
    seconds: Annotated[int | None, typer.Option("--seconds", help="What its kind counts in seconds.")] = None,
    probability: Annotated[float, typer.Option("--probability", help="That it strikes where it could.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="The same seed strikes the same way again.")] = 0,
    for_s: Annotated[int | None, typer.Option("--for", help="Seconds after which it ends by itself.")] = None,
) -> None:
    """Inject a fault: a number of times, for a while, or with a probability."""
    from hermesops.localcloud.faults.rules import FaultOrder

    order = FaultOrder(kind, machine, times, method, path, status, seconds, probability, seed, for_s)
    rule = context.run(_world().set_fault(order))
    often = counted(int(str(rule["times"])), "time") if rule["times"] else "every time"
    result("local-fault", {"fault": rule}, [f"{rule['kind']}: will happen {often}"])


@fault.command(lists=True)
def kinds() -> None:
    """List the faults that the local world can inject."""
    from hermesops.localcloud.faults.kinds import FaultKind

    rows = [{"kind": str(kind), "meaning": kind.meaning} for kind in FaultKind]
    table("local-fault-kinds", "kinds", ("kind", "meaning"), rows, "nothing")


@fault.command("list")
def list_() -> None:
    """List injected faults that can still happen."""
    rows = context.run(_world().faults())
    columns = ("kind", "machine", "times", "probability", "until", "method", "path")
    table("local-faults", "faults", columns, rows, "no faults")


@fault.command()
def clear() -> None:
    """Remove all faults from the local world."""
    count = context.run(_world().clear_faults())
    result("local-faults-cleared", {"cleared": count}, [f"{counted(count, 'fault')} removed"])


def serve_command(environment: str) -> list[str]:
    """The command that is a local world's server."""
    return [sys.executable, "-m", "hermesops", "--env", environment, "local", "serve"]


def _world(driver: str = "") -> "World":
    from hermesops.platform.local.world import world_of

    return world_of(context.environment(), driver)


def _show(status: "WorldStatus") -> None:
    if is_json():
        result("local-status", asdict(status))
        return
    if not status.is_up:
        result("local-status", {}, ["the local world is down"])
        return
    limits = "machines have the memory, CPU and disk of their server type, and no more"
    if status.unlimited:
        limits = f"machines are not limited to the {', '.join(status.unlimited)} of their server type"
    store = status.object_store
    backups = f"{store['endpoint']}  (key in {store['key_file']})" if store else "no object store until one is needed"
    lines = [
        f"API     {status.api_url}  (key in {status.api_key_file})",
        f"models  {status.model_base_url}",
        f"driver  {status.driver}",
        f"base    {status.base}",
        f"room    for {status.room} more machines: {status.figures}",
        f"limits  {limits}",
        f"backups {backups}",
        f"images  {len(status.images)}",
        *([f"metrics {status.monitoring_url}"] if status.monitoring_url else []),
        *([f"chat    {status.users_url}/hermes-max/chat"] if status.users_url else []),
        *([f"phone   {status.phone_url}"] if status.phone_url else []),
        *_own_provider(status.model_provider_url, status.model_provider_keys_file),
        *([f"sockets {status.connector_url}/relay  (of agents, for messengers)"] if status.connector_url else []),
        "",
    ]
    result("local-status", {}, lines)
    machines = sorted(status.machines, key=itemgetter("name"))
    table("local-status", "machines", ("name", "status", "slug", "ip", "message"), machines, "no machines")


def _own_provider(url: str, keys_file: str) -> list[str]:
    """Lines about the stand-in of a provider for users' own keys; none in a world without vendors."""
    if not url:
        return []
    use = ("--provider", "custom", "--base-url", url, "--model", "world-small", "--key-from", keys_file)
    next_step = advice("an agent asks it after", ("instance", "model-provider", "USER", *use, "--reason", "WHY"))
    return [f"own     {url}  (model provider of users' own keys; key in {keys_file})", f"        {next_step}"]
