"""``hermesops registry check|rebuild``: whether our own records agree, and making them anew when they are lost."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, agree, result, say, table
from hermesops.cli.views import fleet
from hermesops.errors import BrokenInvariantError

if TYPE_CHECKING:
    from hermesops.drift.rebuild import Rebuild


def check() -> int:
    """Check for contradicting rows, secrets that do not open, and a broken audit; exit 70 on any."""
    found = context.compose().contradictions()
    table(
        "registry-check",
        "contradictions",
        ("subject", "what", "hint"),
        [{"subject": one.subject, "what": one.what, "hint": one.hint} for one in found],
        "the registry contradicts itself nowhere",
    )
    return BrokenInvariantError.exit_code if found else 0


def rebuild(
    alias: Annotated[list[str] | None, typer.Option("--alias", help="A user's alias; may be repeated.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be rebuilt.")] = False,
    reason: Why = "the registry was lost",
    yes: Yes = False,
) -> None:
    """Rebuild a lost registry from JustAVPS's list and what the machines report; never over an intact one.

    A copy knows more: try `hermesops registry restore --latest` first.
    """
    composed = context.compose()
    work = composed.registry_rebuild
    work.require_loss()
    planned: Rebuild = context.run(work.plan(alias or ()))
    if dry_run:
        result("registry-rebuild", fleet.rebuild(planned, written=0), fleet.rebuild_lines(planned))
        return
    for line in fleet.rebuild_lines(planned):
        say(line)
    name = composed.env.name
    agree(f"This makes a new registry of environment {name}.", expect=name, spared="no registry was made", yes=yes)
    written = work.apply(planned, reason=reason)
    lines = [f"the registry holds {written} instances again", f"next: {composed.program} fleet drift --deep"]
    result("registry-rebuild", fleet.rebuild(planned, written=written), lines)
