"""``hermesops audit``: each change with its operator and reason, and verification of the log."""

from pathlib import Path
from typing import Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.console import is_json, result, say, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.views import audit
from hermesops.views.access import audit as audit_shapes

app = Noun(no_args_is_help=True)

_FOR_PEOPLE, _FOR_PROGRAMS = 50, 1000
"""Entries that are listed where no number is given."""


@app.command(lists=True)
def log(
    since: Annotated[
        str, typer.Option("--since", help="Only from then on: 90m, 12h, 7d, or a date (UTC by default).")
    ] = "",
    subject: Annotated[str, typer.Option("--subject", help="Only of that subject, as instance/<id>.")] = "",
    who: Annotated[str, typer.Option("--who", help="Only of that operator or program.")] = "",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="The newest so many; 50 unless given, 1000 with --json.")
    ] = None,
) -> None:
    """List entries of the audit log, newest first."""
    begin = values.since(since) if since else None
    newest = limit or (_FOR_PROGRAMS if is_json() else _FOR_PEOPLE)
    entries = context.compose().audit.list(subject=subject, who=who, since=begin, limit=newest)
    columns = ("id", "at", "who", "action", "subject", "why")
    table("audit-log", "entries", columns, [audit_shapes.entry(entry) for entry in entries], "nothing was changed")
    if len(entries) == newest:
        say(f"the newest {newest} are shown; --limit shows more")


@app.command()
def verify(
    anchor: Annotated[
        Path | None, typer.Option("--anchor", help="File of anchored heads of another computer.", dir_okay=False)
    ] = None,
) -> None:
    """Verify that no entry was edited, removed, moved or recomputed."""
    report, anchor_file = context.compose().audit.verify(anchor)
    result("audit-verify", audit_shapes.report(report, anchor_file), audit.lines(report, anchor_file))
