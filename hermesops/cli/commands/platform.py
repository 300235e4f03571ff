"""``hermesops platform``: the shared platform of an environment."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, is_json, result, say, table, table_lines
from hermesops.cli.groups.noun import Noun
from hermesops.cli.printing.followed import show_lines, until_interrupted
from hermesops.errors import CHANGES_REMAIN, Hint, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app import Container
    from hermesops.app.platform import PlatformParts
    from hermesops.infra.stacks.platform.outputs import PlatformOutputs
    from hermesops.platform.bootstrap.decide import Step
    from hermesops.platform.bootstrap.runner import Bootstrap, Preview
    from hermesops.platform.connect import Connected, Disconnected, SettingChange
    from hermesops.platform.restore import Restored
    from hermesops.platform.services import ServiceLog
    from hermesops.platform.state import HostState, ServiceState

app = Noun(no_args_is_help=True)

_COLUMNS = ("thing", "step")

Service = Annotated[str, typer.Argument(metavar="[SERVICE]", help="As in platform show.", show_default=False)]


@app.command(waits=True)
def bootstrap(
    account: Annotated[
        str, typer.Option("--account", help="AWS account, 12 digits; by default platform.account.", show_default=False)
    ] = "",
    region: Annotated[
        str, typer.Option("--region", help="AWS region; by default platform.region.", show_default=False)
    ] = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be done.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="With --preview: exit 7 when something is left.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Delete all of it, while the bucket is empty and nothing else uses it.")
    ] = False,
    yes: Yes = False,
) -> int:
    """Prepare an AWS account for Pulumi: state bucket, its key, and the roles that pipelines take by OIDC.

    Shows first what would be made or mended, and asks. What is there already stays; killed at any moment, the same
    command goes on.
    """
    from hermesops.automation.doctor.environments import require_known
    from hermesops.platform.bootstrap.service import bootstrap_of

    if exit_code and not preview:
        raise UsageError("--exit-code goes with --preview")
    env = context.environment()
    require_known(env)
    setup = bootstrap_of(env, account=account, region=region, undo=undo, report=say)
    bootstrap_preview = context.run(setup.preview())
    if preview:
        _show(setup, bootstrap_preview)
        return CHANGES_REMAIN if exit_code and bootstrap_preview.steps else 0
    for line in (
        (*table_lines(_COLUMNS, _rows(bootstrap_preview.steps), ""), *bootstrap_preview.notes)
        if bootstrap_preview.steps
        else ()
    ):
        say(line)
    if bootstrap_preview.steps:
        verb = "deletes" if undo else "changes"
        agree(
            f"As {bootstrap_preview.caller}, this {verb} account {setup.spec.account} "
            f"({env.name}, {setup.spec.region}).",
            expect=setup.spec.account,
            spared="nothing was touched",
            yes=yes,
        )
    done = context.run(setup.run(bootstrap_preview.steps))
    _report(setup, bootstrap_preview, done)
    return 0


@app.command()
def show() -> None:
    """Show the platform's services with address and health, and the age of the newest backup of the database.

    Of a local world that has its monitoring alone, it shows the services of that.
    """
    from hermesops.cli.views import platform as view
    from hermesops.platform.connect import is_connected

    container = context.compose()
    if container.env.is_local:
        outputs, host = context.run_platform(container, _observe)
    else:
        outputs, host = context.run(container.aws_platform_stack.outputs()), None
    connected = is_connected(container.env)
    shown = view.show(outputs, host, connected=connected)
    if is_json() or host is None:
        result("platform-show", shown, view.lines(outputs, host, connected=connected))
        return
    columns = ("service", "state", "healthy", "restarts")
    rows = view.services([service for service in host.services if not service.is_passing or not service.is_healthy])
    table("platform-show", "services", columns, rows, "no services")
    result("platform-show", shown, view.lines(outputs, host, connected=connected))


@app.command()
def logs(
    service: Service = "",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="Lines of each, from the end.")] = 40,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as new lines of SERVICE come.")] = False,
) -> None:
    """Show the newest lines of a service's log; without SERVICE, of each service that is down.

    --follow goes on until Ctrl-C, and connects again where the connection breaks; as JSON it prints one object a line.
    """
    from hermesops.cli.views import platform as view
    from hermesops.platform.services import unread

    container = _with_host("journalctl shows its log")
    if follow:

        async def followed(parts: "PlatformParts") -> None:
            await show_lines((await parts.services()).follow(service, lines, say), "platform-log-line", service=service)

        until_interrupted(lambda: context.run_platform(container, followed))
        return

    async def work(parts: "PlatformParts") -> "list[ServiceLog]":
        return await (await parts.services()).logs(service, lines)

    service_logs = context.run_platform(container, work)
    result(
        "platform-logs",
        {"services": view.logs(service_logs)},
        view.log_lines(service_logs) or [view.NONE_DOWN],
        verbatim=True,
    )
    if problem := unread(service_logs):
        raise problem


@app.command("open")
def open_(
    service: Annotated[str, typer.Argument(help="grafana.")] = "grafana",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open it in this computer's browser.")] = True,
) -> None:
    """Open Grafana of the platform in a browser, until Ctrl-C.

    A proxy on a random port of 127.0.0.1 presents a certificate of yours to the platform. Its address has a token that
    counts once, for one browser; it passes on what is read, and no other service.
    """
    import webbrowser

    from hermesops.cli.listener import listen, serve_until_signal
    from hermesops.observability.browser import LOOPBACK, BrowserGate, BrowserProxy, require_service

    prefix = {"grafana": "/grafana/"}.get(service)
    if prefix is None:
        raise UsageError(f"{service!r} has no page for a browser; grafana has")
    container = context.compose()
    endpoint = container.monitoring.require_endpoint()

    async def work() -> None:
        await require_service(endpoint.url, endpoint.context(), prefix)
        listener = listen(f"{LOOPBACK}:0", "platform", "open")
        gate = BrowserGate(f"{LOOPBACK}:{listener.getsockname()[1]}", prefix)
        result("platform-open", {"url": gate.url}, [gate.url])
        if browser and not is_json():
            webbrowser.open(gate.url)
        await serve_until_signal(listener, BrowserProxy(endpoint.url, endpoint.context, gate).serve(listener), service)

    context.run(work())


@app.command(waits=True)
def restart(reason: Why, service: Service = "", yes: Yes = False) -> None:
    """Restart a service of the platform, and verify that it stays up; without SERVICE, each that is down.

    Agents go on meanwhile, except that nobody's turn is answered while router or postgresql start.
    """
    from hermesops.cli.views import platform as view

    container = _with_host("systemctl restarts it")
    agree(
        f"This restarts {service or 'every service that is down'} of environment {container.env.name}'s platform.",
        expect=container.env.name,
        spared="nothing was restarted",
        yes=yes,
    )

    async def work(parts: "PlatformParts") -> "list[ServiceState]":
        return await (await parts.services()).restart(service, reason)

    done = context.run_platform(container, work)
    lines = [f"{service.name} is {service.state}" for service in done] or [view.NONE_DOWN]
    result("platform-restart", {"services": view.services(done)}, lines)


@app.command(waits=True)
def connect(
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the settings from before, and the registry as it was then.")
    ] = False,
    broken_audit: Annotated[
        str, typer.Option("--broken-audit", help="Move it though its audit is broken, and why; it stays broken.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Point this environment at its platform: settings, keys, and the registry, whose rows are copied.

    Shows first what changes in settings.toml, and asks. Nobody may write the registry meanwhile, and no operation may
    be open. Killed at any moment, the same command goes on. The local world's server starts anew; machines go on.
    """
    container = context.compose()
    if not container.env.is_local:
        raise UsageError(
            f"environment {container.env.name} is connected to its platform by its settings",
            hint=Hint(("platform", "show")),
        )
    if undo:
        _disconnect(container, despite=broken_audit, yes=yes)
        return
    from hermesops.cli.views import platform as view

    setting_changes = context.run_platform(container, _planned)
    rows = view.changes(setting_changes)
    for line in table_lines(("setting", "before", "after"), rows, "every setting is as it should be"):
        say(line)
    if setting_changes:
        agree(
            f"This changes settings.toml of environment {container.env.name}, and moves its registry.",
            expect=container.env.name,
            spared="nothing was changed",
            yes=yes,
        )

    async def work(parts: "PlatformParts") -> "Connected":
        return await (await parts.connection()).connect(despite=broken_audit)

    done = context.run_platform(context.compose(), work)
    if setting_changes:
        _restart_world()
    shape = {
        "settings": rows,
        "rows": done.rows,
        "epoch": done.epoch,
        "files": done.files,
        "moves_backups": done.moves_backups,
        "audit": done.audit or None,
    }
    lines = [
        (
            f"{counted(len(rows), 'setting')} changed; copied {counted(done.rows, 'row')} of the registry, "
            f"{counted(done.files, 'file')}"
        ),
        *([done.audit] if done.audit else []),
        advice(
            *(("stack", "up", "platform"), "tells its processes these settings, and serves users;"),
            *(("platform", "show"), "shows its services"),
        ),
    ]
    if not rows:
        lines[0] = "this environment uses its platform already; nothing was changed"
    if any(change.name == "router.url" for change in setting_changes):
        lines.append(advice(("token", "rotate", "--all"), "points existing agents to the platform's model router, too"))
    if not done.moves_backups:
        lines.append("backups stay in the present store: it holds backups already")
    result("platform-connect", shape, lines)


@app.command(waits=True)
def restore(
    to: Annotated[
        str, typer.Option("--to", help="latest, or a moment: 2026-11-26T06:00:00Z, or 10m for ten minutes ago.")
    ],
    reason: Why,
    yes: Yes = False,
) -> None:
    """Restore the database of a local world's platform to a moment, from its backups in the object store.

    The database of before is kept on the host, in a folder that the output names. Nothing works with the registry
    meanwhile; then a new epoch begins, and machines refuse leases from before. Killed at any moment, the same command
    goes on; another moment gives up the unfinished one.
    """
    from hermesops.cli.options import values
    from hermesops.cli.views import audit
    from hermesops.platform.restore import LATEST, target_of

    container = context.compose()
    if not container.env.is_local:
        raise UsageError(
            f"the database of environment {container.env.name} is not on a machine of a local world",
            hint=Hint("RDS restores it, or the role:", ("runbook", "show", "platform-database-restored")),
        )
    target = target_of(None if to == LATEST else values.since(to), datetime.now(UTC))
    agree(
        f"This restores the database of environment {container.env.name}'s platform to {target}: "
        "what was written later is in the database of before alone.",
        expect=container.env.name,
        spared="nothing was restored",
        yes=yes,
    )

    async def work(parts: "PlatformParts") -> "Restored":
        return await (await parts.database_restore(reason)).run(target)

    done = context.run_platform(container, work)
    shape = {
        "restored_to": done.target,
        "set_aside": done.set_aside,
        "epoch": done.epoch or None,
        "seconds": done.seconds,
        "audit": done.audit.told if done.audit else None,
    }
    lines = [
        f"restored to {done.target} in {done.seconds:.0f} s; the database of before is {done.set_aside} on the host",
        *([f"epoch {done.epoch} has begun: every lease from before has ended"] if done.epoch else []),
        *([done.audit.told] if done.audit else []),
        advice(("fleet", "drift"), "compares what was done later with what the registry knows"),
    ]
    result("platform-restored", shape, lines)
    if done.audit:
        audit.require_sound(done.audit)


@app.command()
def bundle(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where the folder of its version is made.")],
    no_logs: Annotated[
        bool, typer.Option("--no-logs", help="Without Loki, which has to be built from source once.")
    ] = False,
) -> None:
    """Write the signed bundle from which hosts on AWS set themselves up: hermesops, its roles and their packages.

    It is of the code that runs this command. Signed with the key of releases. Upload it as shown, then name its version
    in pulumi/platform/Pulumi.ENVIRONMENT.yaml.
    """
    from hermesops.platform.aws.bundle import write_bundle

    container = context.compose()
    host_bundle = context.run(
        write_bundle(container.env, container.release_key, container.report, folder, has_logs=not no_logs)
    )
    shape = {"version": host_bundle.version, "folder": str(host_bundle.folder), "bytes": host_bundle.bytes}
    lines = [
        f"bundle {host_bundle.version}: {host_bundle.bytes / 1e6:.0f} MB in {host_bundle.folder}",
        f"  $ aws s3 cp --recursive {host_bundle.folder} s3://BUCKET-OF-RELEASES/platform/{host_bundle.version}/",
        f"  platform:host:  version: {host_bundle.version}",
    ]
    result("platform-bundle", shape, lines)


def _with_host(by_hand: str) -> "Container":
    """The environment, whose platform is on a machine of its local world; on AWS an operator does it by hand there."""
    container = context.compose()
    if not container.env.is_local:
        raise UsageError(
            f"the platform's hosts of environment {container.env.name} are on AWS",
            hint=f"Session Manager opens a shell on one (aws ssm start-session), where {by_hand}",
        )
    return container


def _disconnect(container: "Container", *, despite: str, yes: bool) -> None:
    name = container.env.name
    agree(
        f"This takes the settings and the registry of environment {name} from before it was connected; "
        "what was written since stays in the platform's registry alone.",
        expect=name,
        spared="nothing was changed",
        yes=yes,
    )

    async def work(parts: "PlatformParts") -> "Disconnected":
        return await (await parts.connection()).undo(despite=despite)

    done = context.run_platform(container, work)
    _restart_world()
    lines = [
        f"the registry of this computer is in use again, from epoch {done.epoch}",
        done.audit,
        advice(("fleet", "drift"), "compares it"),
    ]
    result("platform-disconnect", {"epoch": done.epoch, "audit": done.audit}, lines)


async def _observe(parts: "PlatformParts") -> "tuple[PlatformOutputs[str] | None, HostState | None]":
    outputs = await parts.stack.outputs() if await parts.stack.exists() else None
    return outputs, await parts.observe()


async def _planned(parts: "PlatformParts") -> "tuple[SettingChange, ...]":
    return (await parts.connection()).changes()


def _restart_world() -> None:
    """Have the local world's server read the settings as they are now."""
    from hermesops.cli.commands.local import serve_command
    from hermesops.platform.local.world import server_environment, world_of

    env = context.environment()
    if env.is_local:
        context.run(world_of(env).restart(serve_command(env.name), environment=server_environment(env), report=say))


def _show(setup: "Bootstrap", bootstrap_preview: "Preview") -> None:
    table(
        "platform-bootstrap-preview",
        "steps",
        _COLUMNS,
        _rows(bootstrap_preview.steps),
        f"nothing to do in account {setup.spec.account}",
        beside={"caller": bootstrap_preview.caller, "notes": list(bootstrap_preview.notes), **_names(setup)},
    )
    for line in () if is_json() else bootstrap_preview.notes:
        say(line)


def _report(setup: "Bootstrap", bootstrap_preview: "Preview", done: "Sequence[Step]") -> None:
    spec, names = setup.spec, _names(setup)
    if setup.undo:
        lines = [f"account {spec.account}: {counted(len(done), 'step')} done, nothing of the bootstrap is left"]
    else:
        lines = [
            f"account {spec.account} is ready: {counted(len(done), 'step')} done",
            f"  pulumi.backend   {names['backend']}",
            f"  role of previews {names['preview_role']}",
            f"  role of applies  {names['apply_role']}",
            advice(("platform", "bootstrap", "--preview", "--exit-code"), "verifies that later"),
        ]
    shape = {"done": _rows(done), "notes": list(bootstrap_preview.notes), **names}
    result("platform-bootstrap", shape, [*lines, *bootstrap_preview.notes])


def _names(setup: "Bootstrap") -> dict[str, str]:
    from hermesops.platform.bootstrap.spec import PipelineRole

    spec = setup.spec
    return {
        "account": spec.account,
        "region": spec.region,
        "backend": spec.backend_url,
        "key": spec.alias,
        "preview_role": spec.role_arn(PipelineRole.PREVIEW),
        "apply_role": spec.role_arn(PipelineRole.APPLY),
        "boundary": spec.policy_arn(spec.boundary),
    }


def _rows(steps: "Sequence[Step]") -> list[dict[str, object]]:
    return [{"thing": step.thing, "step": step.action.value} for step in steps]
