"""``hermesops backup``: encrypted copies of agents' states, outside the vendor."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, is_json, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options import dry_run as dry_runs
from hermesops.cli.options.instance import DryRun, NoWait, User, Wait, find_instance, preview_operation, run_operation
from hermesops.cli.views import backup as backup_view
from hermesops.errors import Hint, RefusedError
from hermesops.views.agents import backups as backup_shapes
from hermesops.views.agents.change_previews import checked

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.app.connected import Connected
    from hermesops.model.operation import Operation

app = Noun(no_args_is_help=True)

Snapshot = Annotated[str, typer.Option("--snapshot", help="Which backup, by the beginning of its id; else the newest.")]


@app.command("list")
def list_(
    user: Annotated[str, typer.Argument(help="Only this one's; without it, how old each newest is.")] = "",
) -> None:
    """List a user's backups, or the age of each agent's newest backup, the oldest first."""
    container = context.compose()
    if not user:
        _ages(container)
        return
    instance = container.instances.find(user)
    backups = container.backup_rows.list(instance)
    shape = backup_shapes.backup if is_json() else backup_view.line
    columns = ("backup", "at", "why", "bytes", "added", "holds", "check")
    empty = advice(f"no backups of {instance.title};", ("backup", "create", user), "makes one")
    table("backup-list", "backups", columns, [shape(backup, instance.title) for backup in backups], empty)


@app.command()
def create(user: User, no_wait: NoWait = False, wait: Wait = "", dry_run: dry_runs.DryRun = False) -> None:
    """Back up a user's agent now, while it runs."""
    container, instance = find_instance(user)
    if dry_run:

        async def opened(connected: "Connected") -> "Operation":
            return await connected.dry_run().backups.open_backup(instance, why="manual")

        shape = checked(instance.title, context.run_connected(container, opened))
        dry_runs.show("backup-preview", shape, ["its checks pass; its steps are known once it runs"])
        return
    _, outcome = run_operation(
        container, lambda connected: connected.backups.open_backup(instance, why="manual"), no_wait=no_wait, wait=wait
    )
    newest = None if no_wait else container.backup_rows.get(instance)
    result("backup", backup_shapes.created(user, outcome, newest), [outcome])


@app.command(waits=True)
def check(user: User, snapshot: Snapshot = "") -> None:
    """Restore a backup into a temporary folder here, and compare it with the recorded state."""
    container, instance = find_instance(user)
    chosen = container.backup_rows.get(instance, snapshot)
    checked = context.run_connected(container, lambda connected: connected.backups.proof.check(chosen))
    verdict = f"is what was copied: {checked.state}" if checked.is_proved else "is not what was copied"
    line = f"backup {checked.id[:8]} was restored and {verdict}"
    result("backup-check", {"checked": backup_shapes.backup(checked, user)}, [line])
    if not checked.is_proved:
        raise RefusedError(
            f"backup {checked.id[:8]} of {user} does not hold what was copied: {checked.checked}",
            hint=Hint(("backup", "create", user), "makes another;", ("backup", "list", user), "shows the others"),
        )


@app.command()
def restore(
    user: User,
    snapshot: Snapshot = "",
    damaged: Annotated[
        bool, typer.Option("--damaged", help="The current state is damaged: do not back it up first.")
    ] = False,
    onto_new_machine: Annotated[
        bool, typer.Option("--onto-new-machine", help="Restore onto a new machine, as when its own is gone.")
    ] = False,
    yes: Yes = False,
    reason: Why = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    wait: Wait = "",
) -> None:
    """Restore an agent's state from a backup; the current state is backed up first if its machine answers.

    Without --snapshot it is the newest but for those that a restore made of what it replaced: the same command again
    does not undo it.
    """
    from hermesops.agents.backup.restores import RestoreRequest

    container, instance = find_instance(user)
    chosen = container.backup_rows.to_restore(instance, snapshot)
    request = RestoreRequest(
        user,
        instance,
        chosen,
        reason,
        is_named=bool(snapshot),
        is_damaged=damaged,
        is_onto_new_machine=onto_new_machine,
    )
    agree(
        f"This puts the agent of {user} in environment {container.env.name} back to {chosen.at:%Y-%m-%d %H:%M} UTC.",
        expect=user,
        spared=f"{user} in {container.env.name} is untouched",
        yes=yes,
        dry_run=dry_run,
    )
    if dry_run:
        preview_operation(container, lambda connected: connected.restores.open(request))
        return
    operation, outcome = run_operation(
        container, lambda connected: connected.restores.open(request), no_wait=no_wait, wait=wait
    )
    result("restore", backup_shapes.restored(user, str(operation.intent["snapshot"]), outcome), [outcome])


@app.command(waits=True)
def prune(
    user: Annotated[str, typer.Argument(help="Only this one's.")] = "", yes: Yes = False, reason: Why = ""
) -> None:
    """Delete backups that no rule keeps (settings backup.keep_…); job prune does it weekly."""
    container = context.compose()
    if user:
        container.instances.find(user)  # a slip of the name is told before anybody confirms anything
    environment, of = container.env.name, f"of {user}" if user else "of all agents"
    agree(
        f"This deletes the backups {of} in environment {environment} that no rule keeps.",
        expect=user or environment,
        spared=f"the backups {of} in {environment} are untouched",
        yes=yes,
    )
    gone = context.run_connected(container, lambda connected: connected.backups.prune(user, reason=reason))
    count = sum(gone.values())
    backups, agents = "backup" if count == 1 else "backups", "agent" if len(gone) == 1 else "agents"
    result("backup-prune", {"gone": gone}, [f"deleted {count} {backups} of {len(gone)} {agents}"])


@app.command()
def rotate(user: User, reason: Why = "") -> None:
    """Give a user's machine another key to its repository; the key before opens it no more."""
    container, instance = find_instance(user)
    context.run_connected(container, lambda connected: connected.backups.rotate_key(instance, reason=reason))
    result("backup-rotate", {"user": user}, [f"the repository of {user} has another key now"])


def _ages(container: "Container") -> None:
    ages = container.backup_rows.ages()
    shape = backup_shapes.age if is_json() else backup_view.age_line
    rows = [shape(backup, newest, ages.now) for backup, newest in ages.rows]
    rows.sort(key=lambda row: (not row["counts"], -int(str(row["age_s"]))))
    empty = advice("no instances;", ("provision", "USER", "--plan", "light"), "makes one")
    columns = ("user", "status", "newest", "age")
    table(
        "backup-ages",
        "instances",
        columns,
        rows,
        empty,
        beside={"oldest_s": ages.loss.oldest_s, "late": ages.loss.late},
    )
