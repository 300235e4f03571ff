"""``hermesops alert``: alerts of the platform's monitoring, their silences and acknowledgements."""

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import advice, is_json, list_lines, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.dry_run import DRY_RUN, DryRun, show
from hermesops.cli.options.watch import Every, Watch
from hermesops.cli.views import alerts as view
from hermesops.errors import Hint, UsageError
from hermesops.model.fleet.alert import Severity
from hermesops.views.observability import alerts as alert_shapes
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app import Container
    from hermesops.observability.alerts.check import Checked
    from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert

app = Noun(no_args_is_help=True)


def _begins(incomplete: str) -> list[str]:
    """Names of alerts that hermesops ships rules for."""
    from hermesops.base import assets
    from hermesops.observability.alerts.rules import alert_rules

    files = sorted((assets.folder("roles") / "hermes_platform_monitoring/files/rules").glob("*.yml"))
    named = (rule.name for file in files for rule in alert_rules(file.read_text(encoding="utf-8"), file.name))
    return sorted({name for name in named if name.startswith(incomplete)})


InstanceOf = Annotated[
    str, typer.Option("--instance", metavar="USER", help="Only about this instance: user id, alias or instance id.")
]
Files = Annotated[
    list[Path] | None,
    typer.Argument(metavar="[FILE]...", help="Alert rules, Alertmanager's configuration, dashboards, runbooks."),
]
Why = Annotated[str, typer.Option("--reason", help="Why; in the audit log, and for those who wonder.")]


@app.command("list")
def list_(
    user: InstanceOf = "",
    severity: Annotated[str, typer.Option(help="Only these: page,ticket,none.")] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="Silenced and inhibited ones as well, and those that nobody is told of.")
    ] = False,
    watch: Watch = False,
    every: Every = "5s",
) -> None:
    """List open alerts, the most urgent and oldest first, each with the command that is next.

    Acknowledged ones are among them, with by whom, why and until when.
    One that is “ending” is over: its condition holds no more, and it closes by itself within minutes. Its figure is the
    last one from before.
    """
    chosen = tuple(values.one_of(Severity, word, "--severity") for word in severity.split(",")) if severity else ()
    container = context.compose()
    instance = container.instances.find(user) if user else None
    empty = "no alert is open" if not (user or severity) else "none is open"

    def rows() -> list[dict[str, object]]:
        open_alerts = context.run(container.alerts().list(instance=instance, severities=chosen, everything=everything))
        now = container.now()
        return [(alert_shapes.alert if is_json() else view.alert_row)(open_alert, now) for open_alert in open_alerts]

    if watch:
        from hermesops.cli.printing.watch import watch as show_again

        show_again(lambda: list_lines("alerts", view.COLUMNS, rows(), empty), values.seconds(every, "--every"))
        return
    table("alert-list", "alerts", view.COLUMNS, rows(), empty)


@app.command()
def ack(
    alert: Annotated[str, typer.Argument(help="Name of an open alert.", autocompletion=_begins)],
    user: InstanceOf = "",
    length: Annotated[str, typer.Option("--for", help="For how long, as 90m; 24 h at most.")] = "4h",
    reason: Why = "",
    dry_run: DryRun = False,
) -> None:
    """Acknowledge an alert: you work on it, and nobody is told of it again for some hours. Rollouts stay held."""
    container = context.compose()
    instance = container.instances.find(user) if user else None
    span = timedelta(seconds=values.seconds(length, "--for"))
    if dry_run:
        alerts = container.alerts()
        taken = alerts.preview_acknowledgement(alert, instance, length=span, reason=reason or DRY_RUN)
        _show_preview(container, context.run(taken))
        return
    acknowledgement = context.run(container.alerts().acknowledge(alert, instance, length=span, reason=reason))
    line = view.silence_line(
        acknowledgement, f"{alert} is acknowledged", Hint(("alert", "silence", "--lift", acknowledgement.id))
    )
    result("alert-ack", {"silence": alert_shapes.silence(acknowledgement)}, [advice(line)])


@app.command()
def silence(
    where: Annotated[
        str, typer.Option("--where", help="Alerts with these labels: alert=GatewayDown,cell=cell1,user=…,name=…")
    ] = "",
    user: InstanceOf = "",
    length: Annotated[str, typer.Option("--for", help="For how long, as 90m, 2h or 3d; 7 days at most.")] = "2h",
    reason: Why = "",
    listed: Annotated[bool, typer.Option("--list", help="List silences that hold or are to come.")] = False,
    lift: Annotated[str, typer.Option("--lift", metavar="ID", help="End this silence now.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Silence alerts for a while: nobody is told of them, and they hold no rollout. List and lift silences.

    Refused are silences that would take alerts of the whole fleet, and labels, alerts, users and cells that are not
    there.
    """
    if sum((listed, bool(lift), bool(where or user))) != 1:
        raise UsageError(
            "give one of: --where or --instance with --reason; --list; --lift ID",
            hint=Hint(("alert", "silence", "--instance", "USER", "--for", "2h", "--reason", "WHY")),
        )
    container = context.compose()
    if listed:
        alerts = container.alerts()
        silences = context.run(alerts.silences())
        users = alerts.users()
        rows = [alert_shapes.silence(entry) if is_json() else view.silence_row(entry, users) for entry in silences]
        table("alert-silences", "silences", view.SILENCES, rows, "nothing is silenced")
        return
    if lift and dry_run:
        ended, heard = context.run(container.alerts().preview_lift(lift))
        shape = alert_shapes.lift_preview(ended, heard, container.now())
        show("alert-silence-preview", shape, [f"ends silence {ended.id}", *map(_line, heard)])
        return
    if lift:
        lifted = context.run(container.alerts().lift(lift, reason=reason or "lifted"))
        result("alert-silence", {"silence": alert_shapes.silence(lifted)}, [f"silence {lifted.id} has ended"])
        return
    instance = container.instances.find(user) if user else None
    span = timedelta(seconds=values.seconds(length, "--for"))
    alerts = container.alerts()
    if dry_run:
        taken = context.run(alerts.preview_silence(where, instance, length=span, reason=reason or DRY_RUN))
        _show_preview(container, taken)
        return
    new_silence = context.run(alerts.silence(where, instance, length=span, reason=reason))
    what = f"silenced: {alert_shapes.matched(new_silence, alerts.users())}"
    line = view.silence_line(new_silence, what, Hint(("alert", "silence", "--lift", new_silence.id)))
    result("alert-silence", {"silence": alert_shapes.silence(new_silence)}, [advice(line)])


@app.command()
def check(files: Files = None) -> int:
    """Check files of monitoring before they are applied; without any, those that hermesops ships.

    Rules and queries also go through promtool, and Alertmanager's configuration through amtool, where these are
    installed. Exits with 2 if something is wrong.
    """
    from hermesops.base import assets
    from hermesops.observability.alerts.check import check as check_files

    checked = check_files(files or (), assets.folder("roles"), assets.folder("runbooks"))
    result("alert-check", alert_shapes.check(checked), _lines(checked))
    return 2 if checked.problems else 0


def _show_preview(container: "Container", taken: "Sequence[OpenAlert]") -> None:
    lines = [f"takes {_line(open_alert)}" for open_alert in taken] or ["takes no alert that is open now"]
    show("alert-preview", alert_shapes.about(taken, container.now()), lines)


def _line(open_alert: "OpenAlert") -> str:
    details = open_alert.alert
    whose = open_alert.user or details.cell or "the fleet"
    return one_line(f"{details.name} of {whose}: {details.figure or details.summary}")


def _lines(checked: "Checked") -> list[str]:
    lines = [str(problem) for problem in checked.problems]
    lines += [f"{program} is not installed: its checks were skipped" for program in checked.missing]
    return [*lines, f"{counted(len(checked.files), 'file')} checked, {counted(len(checked.problems), 'problem')}"]
