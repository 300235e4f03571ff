"""``hermesops registry``: its database: migrate, check, copy, restore, and rebuild when it is lost."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, is_json, require_reason, result, say, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.views import audit
from hermesops.cli.views.fleet import rebuild as rebuild_view
from hermesops.errors import BrokenInvariantError, Hint, UsageError
from hermesops.views import registry as shapes
from hermesops.views.agents.lost_registry import rebuild as rebuilt
from hermesops.views.timestamps import Age

if TYPE_CHECKING:
    from hermesops.app import Container

app = Noun(no_args_is_help=True)


@app.command(lists=True)
def check() -> int:
    """Check for contradicting rows, secrets that do not open, and a broken audit; exit 70 on any."""
    contradictions = context.compose().contradictions()
    rows = [shapes.contradiction(row) for row in contradictions]
    none = "no contradictions in the registry"
    table("registry-check", "contradictions", ("subject", "what", "hint"), rows, none)
    return BrokenInvariantError.exit_code if contradictions else 0


@app.command(waits=True)
def rebuild(
    alias: Annotated[list[str] | None, typer.Option("--alias", help="A user's alias; may be repeated.")] = None,
    over: Annotated[
        str, typer.Option("--over", help="Name of the environment, where its registry is whole and lacks agents.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be rebuilt.")] = False,
    reason: Why = "the registry was lost",
    yes: Yes = False,
) -> None:
    """Rebuild a lost registry from JustAVPS's list, the machines and the recovery records beside the backups.

    An intact registry is copied first and keeps its rows; with --over, agents that it lacks are added to it.
    A copy holds more: try `hermesops registry restore --latest` first. Killed anywhere, the same command continues.
    """
    container = context.compose()
    work = container.registry_rebuild
    state = work.state(over)
    planned = context.run(work.plan(alias or (), state))
    if dry_run:
        result("registry-rebuild", rebuilt(planned, written=0), rebuild_view.rebuild_lines(planned))
        return
    for line in rebuild_view.rebuild_lines(planned):
        say(line)
    name = container.env.name
    is_new = state.name == "LOST"
    question = f"This {'makes a new' if is_new else 'adds to the'} registry of environment {name}."
    agree(question, expect=name, spared="no registry was made" if is_new else "the registry is unchanged", yes=yes)
    written = work.apply(planned, over=over, reason=reason)
    lines = [
        f"instances added to the registry: {written}; recovery records taken back: {len(planned.records)}",
        advice("next:", ("fleet", "drift", "--deep")),
    ]
    result("registry-rebuild", rebuilt(planned, written=written), lines)


@app.command()
def migrate() -> None:
    """Bring the registry's tables to this version; on SQLite every command does so by itself."""
    before, now = context.compose().registry_place.migrate()
    words = f"at {now} already" if before == now else f"from {before or 'nothing'} to {now}"
    result("registry-migrate", {"before": before or None, "now": now}, [f"the registry's tables are {words}"])


@app.command()
def copy() -> None:
    """Copy an SQLite registry now; it is copied every hour, and before each restore, rebuild and change of tables."""
    registry_copy = context.compose().registry_copies.take()
    words = f"copied to {registry_copy.copy.file}; instances in it: {registry_copy.instances}"
    result("registry-copy", shapes.copy(registry_copy), [words])


@app.command(lists=True)
def copies() -> None:
    """List the good copies of an SQLite registry, the newest first, with the instances in each."""
    rows = [shapes.copy(registry_copy) for registry_copy in context.compose().registry_copies.list()]
    if not is_json():
        rows = [{**row, "age": Age(round(float(str(row["age_s"]))))} for row in rows]
    columns = ("taken_at", "age", "reason", "instances", "size_bytes", "file")
    table("registry-copies", "copies", columns, rows, "there is no copy yet")


@app.command()
def restore(
    copy: Annotated[Path | None, typer.Argument(help="The copy.", exists=True, dir_okay=False)] = None,
    latest: Annotated[bool, typer.Option("--latest", help="The newest copy.")] = False,
    over: Annotated[
        str, typer.Option("--over", help="Name of the environment, where its registry is whole and may be overwritten.")
    ] = "",
    already_restored: Annotated[
        bool,
        typer.Option(
            "--already-restored",
            help="The database was restored from its own backup, as PostgreSQL is: only record that; needs --reason.",
        ),
    ] = False,
    reason: Why = "",
    yes: Yes = False,
) -> None:
    """Restore a damaged registry from a good copy; the damaged one is set aside, and earlier leases have ended.

    It prints the copy's age and number of instances, and the machines of JustAVPS that are missing in it.
    """
    if (copy is not None) + latest + already_restored != 1:
        raise UsageError(
            "name one: a copy's file, --latest, or --already-restored", hint=Hint(("registry", "copies"), "lists them")
        )
    container = context.compose()
    if already_restored:
        if over:
            raise UsageError("--over goes with a copy: --already-restored overwrites nothing")
        require_reason(reason, "registry", "restore", "--already-restored")
        _record_restored(container, reason)
        return
    name = container.env.name
    preview = context.run(container.registry_copies.preview(copy))
    for line in audit.preview_lines(preview, name):
        say(line)
    agree(f"This replaces the registry of environment {name}.", expect=name, spared="nothing was restored", yes=yes)
    done = container.registry_place.restore(preview.file, over=over, why=reason or "the registry was damaged")
    [copied, missing] = audit.preview_lines(preview, name)
    lines = [f"restored the {copied}; epoch {done.epoch} has begun", missing]
    if preview.unknown:
        lines.append(advice("to add the missing machines:", ("registry", "rebuild", "--over", name)))
    lines.append(advice("to list changes since the copy was taken:", ("fleet", "drift")))
    if done.set_aside:
        lines.append(f"the damaged registry is kept as {done.set_aside}")
    lines.append(done.audit.told)
    result("registry-restored", shapes.restored(done, preview), lines)
    audit.require_sound(done.audit)


def _record_restored(container: "Container", reason: str) -> None:
    """Record that the database was restored by other means; earlier leases have ended."""
    done = container.registry_place.record_restored(reason)
    lines = [f"epoch {done.epoch} has begun: every lease from before has ended", done.audit.told]
    result("registry-epoch", {"epoch": done.epoch, "audit": done.audit.told}, lines)
    audit.require_sound(done.audit)
