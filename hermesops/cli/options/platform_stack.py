"""What the commands of ``stack`` do where the platform's stack is meant, ``platform`` in place of cells."""

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from hermesops.cli import context
from hermesops.cli.console import advice, result, say, table, write
from hermesops.cli.views import shapes
from hermesops.errors import CHANGES_REMAIN, Hint, UsageError
from hermesops.model.cell import PLATFORM

if TYPE_CHECKING:
    from hermesops.model.stack import Change


def is_platform(names: Collection[str] | None, **others: object) -> bool:
    """Whether the platform's stack is meant.

    Args:
        others: Options that are about cells, by their names.

    Raises:
        UsageError: The platform and cells are meant, or an option that is about cells is given with it.
    """
    if PLATFORM not in (names or ()):
        return False
    given = [f"--{name}" for name, value in others.items() if value]
    if len(set(names or ())) > 1 or given:
        beside = given[0] if given else "cells"
        raise UsageError(f"the platform's stack goes without {beside}", hint=Hint(("stack", "up", PLATFORM)))
    return True


def preview(*, remaining: bool) -> int:
    """Show what ``up`` would change.

    Returns:
        The exit code: 7 for changes with ``remaining``, else 0.
    """
    composed = context.compose()
    seen = context.run_connected(composed, lambda session: session.platform_stack.preview())
    return _changes("stack-platform-preview", seen.changes, remaining=remaining)


def up() -> int:
    """Bring the platform up, and say where it is."""
    composed = context.compose()
    done = context.run_connected(composed, lambda session: session.local_platforms.up())
    changes = _shown(done.stack.changes)
    shown = {
        "stack": PLATFORM,
        "machine": done.machine,
        "changes": changes,
        "changed": done.changed,
        "seconds": done.seconds,
        "outputs": dict(done.stack.outputs),
    }
    lines = [f"{one['kind']} {one['name']}" for one in changes]
    lines.append(f"machine {done.machine}: {done.changed} changes, {done.seconds:g} s")
    if not changes and not done.changed:
        lines.append("the platform is as specified; nothing was changed")
    lines.append(
        advice(("platform", "show"), "shows its services;", ("platform", "connect"), "points this environment at it")
    )
    result("stack-platform-up", shown, lines)
    return 0


def refresh(*, only_preview: bool, remaining: bool) -> int:
    """Refresh its state from the vendor, or show what that would write."""
    composed = context.compose()
    if only_preview:
        seen = context.run_connected(composed, lambda session: session.platform_stack.preview_refresh())
        return _changes("stack-platform-refresh-preview", seen.changes, remaining=remaining)
    done = context.run_connected(composed, lambda session: session.platform_stack.refresh())
    return _changes("stack-platform-refresh", done.changes, remaining=remaining)


def export() -> None:
    """Print its deployment as Pulumi exports it."""
    deployment = context.run_connected(context.compose(), lambda session: session.platform_stack.export())
    write(json.dumps(deployment, indent=4) + "\n")


def outputs() -> None:
    """Print where its services are."""
    found = context.run_connected(context.compose(), lambda session: session.platform_stack.outputs())
    values = found.by_name()
    result("stack-platform-outputs", {"outputs": values}, shapes.fields(values))


def _changes(kind: str, changes: "Collection[Change]", *, remaining: bool) -> int:
    shown = _shown(changes)
    table(kind, "changes", ("kind", "type", "name", "properties"), shown, f"{PLATFORM}: no changes")
    if shown:
        say(f"{PLATFORM}: {len(shown)} changes")
    return CHANGES_REMAIN if shown and remaining else 0


def _shown(changes: "Collection[Change]") -> list[dict[str, Any]]:
    from hermesops.model.stack import ChangeKind

    return [shapes.change(one) for one in changes if one.kind is not ChangeKind.SAME]
