"""``hermesops settings``: every setting, its value and where it came from."""

import json
from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import result, say, table

app = Noun(no_args_is_help=True)


@app.command(lists=True)
def show(
    schema: Annotated[
        bool,
        typer.Option("--schema", help="The JSON Schema of settings.toml: each key's description, default and bounds."),
    ] = False,
) -> None:
    """Show each setting with its source; secrets are masked."""
    if schema:
        _show_schema()
        return
    from hermesops.cli.views.environment import setting

    env = context.environment()
    rows = [setting(env, key) for key in env.sources]
    say(f"environment {env.name}, folder {env.folder}")
    table("settings", "settings", ("key", "value", "source", "description"), rows, "")


def _show_schema() -> None:
    from hermesops.settings.schema import schema as settings_schema

    document = settings_schema()
    result("settings_schema", {"schema": document}, [json.dumps(document, indent=2)])
