"""``hermesops env``: environments, each a folder with settings, keys and state of its own."""

from hermesops.cli import context
from hermesops.cli.console import is_json, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.printing.fields import field_lines
from hermesops.cli.views import environment
from hermesops.views.automation import environments as shapes

app = Noun(no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List the environments of this home; * is the one that commands are about."""
    from hermesops.automation.doctor.environments import list_environments

    rows = [shapes.environment(state) for state in list_environments(context.environment())]
    columns = ("name", "chosen", "vendor", "registry", "problem")
    marked = rows if is_json() else [{**row, "chosen": "*" if row["chosen"] else ""} for row in rows]
    table("env-list", "environments", columns, marked, "")


@app.command()
def show() -> None:
    """Show the chosen environment, the reason for the choice, and the settings that it changes."""
    env = context.environment()
    shown = shapes.chosen(env, because=context.why_chosen())
    lines = field_lines(
        {"chosen by" if key == "because" else key: value for key, value in shown.items() if key != "settings"}
    )
    for row in shown["settings"] if isinstance(shown["settings"], list) else ():
        lines.append(f"  {row['key']} = {row['value']}  ({row['source']})")
    result("env-show", shown, lines)


@app.command(lists=True)
def check() -> int:
    """Check that this environment can be worked with: registry, vendor, the platform's account and every secret."""
    return environment.report_checks("env-check", context.run(context.compose().checks.all()))
