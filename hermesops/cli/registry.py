"""``hermesops registry``: the database of everything we know."""

from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.cli.noun import Noun

app = Noun(help="The registry's database.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The registry's database."""


@app.command()
def migrate() -> None:
    """Bring the registry's tables to this version; on SQLite every command does so by itself."""
    before, now = context.compose().migrate_registry()
    words = f"at {now} already" if before == now else f"from {before or 'nothing'} to {now}"
    result("registry-migrate", {"before": before or None, "now": now}, [f"the registry's tables are {words}"])
