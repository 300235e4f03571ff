"""``hermesops secrets``: the keys and passwords that hermesops itself needs; their texts are never shown."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, say, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options import files
from hermesops.cli.options.dry_run import DryRun, show
from hermesops.cli.views import environment
from hermesops.errors import CHANGES_REMAIN, Hint, UsageError
from hermesops.views.access import secrets as secret_shapes

app = Noun(no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="As secrets list says it, as api.key.")]


@app.command("list")
def list_() -> None:
    """List the needed secrets with place and age, never their values."""
    from datetime import UTC, datetime

    now = datetime.now(UTC)
    rows = [secret_shapes.held_secret(secret, now) for secret in context.compose().checks.held_secrets()]
    table("secrets-list", "secrets", ("name", "home", "is_there", "age", "purpose"), rows, "")


@app.command("set")
def set_(
    name: Name,
    source: Annotated[str, typer.Option("--from", help="File with it; - is standard input.")] = "-",
    reason: Why = "",
    yes: Yes = False,
) -> None:
    """Store a secret; it is read from a file or standard input, never from an argument."""
    from hermesops.access.secrets.catalog import needed

    which, container = needed(name), context.compose()
    if container.secrets.held(which).is_there:
        agree(
            f"This replaces {name} of environment {container.env.name}, which {which.purpose}.",
            expect=name,
            spared=f"{name} is unchanged",
            yes=yes,
        )
    where = container.secret_changes.set(which, files.read(source), why=reason)
    result("secret-set", {"name": name, "home": where}, [f"{name} is kept in {where}"])


@app.command()
def rotate(
    name: Name,
    reason: Why = "",
    prepare: Annotated[
        bool, typer.Option("--prepare", help="registry.key: only add the new key, to hand it to other computers first.")
    ] = False,
    dry_run: DryRun = False,
) -> int:
    """Rotate a secret; where only a person can, print the steps (exit 7). After a kill, run it again."""
    from hermesops.access.secrets.catalog import REGISTRY_KEY, needed

    which, container = needed(name), context.compose()
    if which != REGISTRY_KEY:
        if prepare:
            raise UsageError(
                "--prepare is about registry.key", hint=Hint(("secrets", "rotate", "registry.key", "--prepare"))
            )
        lines = [f"{number}. {advice(step)}" for number, step in enumerate(which.rotation, 1)]
        result("secret-rotation", secret_shapes.rotation(name, None, which.rotation), lines)
        return CHANGES_REMAIN
    if dry_run:
        preview = container.secret_changes.preview_registry_key()
        left = f"values sealed with another key: {preview.left}"
        lines = [f"key {preview.sealing} seals now", left, f"prepared key: {preview.prepared or 'none'}"]
        show("secret-rotation-preview", secret_shapes.rotation_preview(preview, prepare=prepare), lines)
        return 0
    if not reason.strip():
        raise UsageError(
            "missing --reason for the rotation of the registry's key",
            hint=Hint(("secrets", "rotate", name, "--reason", "WHY")),
        )
    if prepare:
        key = context.run(container.secret_changes.prepare_registry_key())
        say(f"give {container.secrets.where(which)} to every computer of this environment, then rotate")
        line = f"key {key} is ready and seals nothing yet"
    else:
        key = context.run(container.secret_changes.rotate_registry_key(why=reason))
        line = f"everything is sealed with key {key}"
    result("secret-rotation", secret_shapes.rotation(name, key, ()), [line])
    return 0


@app.command(lists=True)
def check(names: Annotated[list[str] | None, typer.Argument(help="Only these.", show_default=False)] = None) -> int:
    """Check each secret by a harmless use: that it exists, that nobody else may read it, and that it works."""
    from hermesops.access.secrets.catalog import needed

    for name in names or ():
        needed(name)
    container = context.compose()
    checks = context.run(container.checks.check_secrets(tuple(names or ())))
    exit_code = environment.report_checks("secrets-check", checks, empty="no secrets")
    if strangers := container.checks.unneeded_secrets():
        say(f"{container.secrets.home.title} also holds {', '.join(strangers)}, which hermesops does not need")
    return exit_code
