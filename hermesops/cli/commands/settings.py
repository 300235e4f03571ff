"""``hermesops settings``: every setting, its value and its source; changes of settings.toml."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, require_typed_environment, result, say, table
from hermesops.cli.groups.noun import Noun
from hermesops.errors import HermesError, Hint, UsageError

if TYPE_CHECKING:
    from hermesops.access.setting_changes import SettingAudit

app = Noun(no_args_is_help=True)

Key = Annotated[str, typer.Argument(help="Name of the setting, as cell_size or backup.region.")]


@app.command(lists=True)
def show(
    word: Annotated[
        str, typer.Argument(help="Only settings with this word in key, value or description.", show_default=False)
    ] = "",
    changed: Annotated[bool, typer.Option("--changed", help="Only settings that differ from their default.")] = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="The JSON Schema of settings.toml: each key's description, default and bounds."),
    ] = False,
) -> None:
    """Show each setting with its source; secrets are masked."""
    if schema:
        _show_schema()
        return
    from hermesops.views.automation.environments import setting

    env = context.environment()
    rows = [setting(env, key) for key in env.sources if not changed or env.sources[key] != "default"]
    rows = [row for row in rows if word.casefold() in f"{row['key']} {row['value']} {row['description']}".casefold()]
    say(f"environment {env.name}, folder {env.folder}")
    empty = f"no setting has {word!r} in its key, value or description" if word else "every setting has its default"
    table("settings", "settings", ("key", "value", "source", "description"), rows, empty)


@app.command()
def get(key: Key) -> None:
    """Print the value of one setting; a secret is masked."""
    from hermesops.model.unknown_name import unknown_name
    from hermesops.views.automation.environments import setting

    env = context.environment()
    if key not in env.sources:
        raise unknown_name("setting", key, env.sources)
    row = setting(env, key)
    result("setting", {"setting": row}, [str(row["value"] if row["value"] is not None else "")])


@app.command("set")
def set_(
    key: Key,
    value: Annotated[
        str,
        typer.Argument(help="As in a variable, as light=starter,heavy=basic for a table.", show_default=False),
    ] = "",
    default: Annotated[
        bool, typer.Option("--default", help="Remove the setting from the file: its default counts.")
    ] = False,
    reason: Why = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print both values and the command that carries it on; change nothing.")
    ] = False,
) -> None:
    """Change one setting in settings.toml; its comments stay. The audit log has who changed it, and both values.

    The settings as a whole are validated first; an invalid value changes nothing. Secrets are refused: they stand in
    files that a *_file setting names. Prints which command carries the change on.
    """
    from hermesops.cli.views.environment import changed_setting_lines
    from hermesops.settings.changing import change_setting
    from hermesops.settings.edited_text import Removed
    from hermesops.views.automation.environments import changed_setting

    if default == bool(value):
        raise UsageError("give a VALUE, or --default", hint=Hint(("settings", "set", key, "VALUE")))
    name = context.chosen()
    if name == "production" and not dry_run:
        require_typed_environment(spared="settings.toml is unchanged")
    text: str | Removed = Removed.REMOVED if default else value
    if dry_run:
        planned = change_setting(name, key, text, dry_run=True)
        lines = [*changed_setting_lines(planned), "dry run: nothing was changed"]
        result("setting-change", {**changed_setting(planned), "written": False, "dry_run": True}, lines)
        return
    audit = _audit()
    change = change_setting(name, key, text)
    if unrecorded := audit.record(change, why=reason) if audit else "the environment cannot be opened":
        say(f"the audit log has no entry of this change: {unrecorded}")
    result("setting-change", changed_setting(change), changed_setting_lines(change))


def _audit() -> "SettingAudit | None":
    """The audit log of the environment as it is before the change; ``None`` while its settings are invalid."""
    try:
        return context.compose().setting_audit
    except HermesError:
        return None  # the change may repair it


def _show_schema() -> None:
    from hermesops.settings.schema import schema as settings_schema

    document = settings_schema()
    result("settings_schema", {"schema": document}, [json.dumps(document, indent=2)])
