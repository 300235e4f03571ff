"""Commands of ``stack`` for the platform's stack: ``platform`` stands in place of cells."""

import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import advice, result, say, table, write
from hermesops.cli.options.files import write_saved
from hermesops.cli.printing.fields import field_lines
from hermesops.cli.views.platform import link_lines
from hermesops.errors import CHANGES_REMAIN, Hint, UsageError
from hermesops.model.fleet.cell import PLATFORM
from hermesops.model.image import PLATFORM_IMAGE
from hermesops.views import platform as platform_shapes
from hermesops.views import stacks as stack_shapes

if TYPE_CHECKING:
    from hermesops.agents.cells.changes.preview import SavedPreview
    from hermesops.app.platform import PlatformParts
    from hermesops.model.stack import Change
    from hermesops.platform.local.roles import RolesState
    from hermesops.platform.stack import PlatformStack

T = TypeVar("T")


def is_platform(names: Collection[str] | None, **others: object) -> bool:
    """Whether the platform's stack is meant.

    Args:
        others: Options that are about cells, by their names.

    Raises:
        UsageError: The platform and cells are meant, or an option that is about cells is given with it.
    """
    if PLATFORM not in (names or ()):
        return False
    options = [f"--{name}" for name, value in others.items() if value]
    if len(set(names or ())) > 1 or options:
        beside = options[0] if options else "cells"
        raise UsageError(f"the platform's stack goes without {beside}", hint=Hint(("stack", "up", PLATFORM)))
    return True


def preview(*, remaining: bool, save: Path | None = None) -> int:
    """Show the changes that ``up`` would make, and the last application of the roles, which no preview covers.

    Args:
        save: File that takes the preview, signed.

    Returns:
        The exit code: 7 for changes, or roles that did not come to their end, with ``remaining``, else 0.
    """
    if save is None:
        stack_preview = _with_stack(lambda stack: stack.preview())
    else:
        stack_preview, text = _with_stack(lambda stack: stack.save_preview())
        write_saved(save, text)
        say(advice("signed and saved:", ("stack", "up", "--from", str(save))))
    code = _changes("stack-platform-preview", stack_preview.changes, remaining=remaining)
    roles = _roles()
    if roles is None:
        return code
    say(f"{PLATFORM}: {roles.told}")
    return code if roles.is_done or not remaining else CHANGES_REMAIN


def up(signed: "SavedPreview | None" = None) -> int:
    """Bring the platform up, and print its address.

    Args:
        signed: All that may happen to its stack; ``None`` for whatever its program says.

    Raises:
        RefusedError: The environment requires approvals, and nothing is signed.
    """
    container = context.compose()
    if signed is None:
        container.saved_previews.refuse_unapproved(PLATFORM)
    if container.env.is_local:
        done = context.run_platform(container, lambda parts: parts.ups.up(signed))
    else:
        done = context.run(container.aws_platform_stack.up_alone(signed))
    changes = stack_shapes.changes(done.stack.changes)
    lines = [f"{change['kind']} {change['name']}" for change in changes]
    tasks = counted(len(done.changed), "change")
    where = f"machine {done.machine}: {tasks}" if done.machine else counted(len(changes), "change")
    lines.append(f"{where}, {done.seconds:g} s")
    if not changes and not done.changed:
        lines.append("the platform is as specified; nothing was changed")
    if done.is_machine_new and not done.image:
        build = ("image", "build", PLATFORM_IMAGE)
        lines.append(
            advice("it was booted from the base;", build, "makes an image of it, from which the next is up sooner")
        )
    show, connect = ("platform", "show"), ("platform", "connect")
    lines.append(advice(show, "shows its services;", connect, "points this environment at it"))
    lines += _of_users(container.env.is_local, done.links)
    result("stack-platform-up", platform_shapes.up(done), lines)
    return 0


def _of_users(is_local: bool, links: Mapping[str, str]) -> list[str]:
    """Lines about the users' half: its addresses, or the next step to it."""
    if links:
        rotate = ("token", "rotate", "--all", "--reason", "WHY")
        handed = [advice("agents are handed the address of sockets by", rotate)] if "sockets" in links else []
        return [*link_lines(links), *handed]
    then = advice("users are served after", ("platform", "connect"), "and once more", ("stack", "up", PLATFORM))
    return [then] if is_local else []


def refresh(*, only_preview: bool, remaining: bool) -> int:
    """Refresh the state of the platform's stack from the vendor, or preview that."""
    if only_preview:
        stack_preview = _with_stack(lambda stack: stack.preview_refresh())
        return _changes("stack-platform-refresh-preview", stack_preview.changes, remaining=remaining)
    done = _with_stack(lambda stack: stack.refresh())
    return _changes("stack-platform-refresh", done.changes, remaining=remaining)


def export() -> None:
    """Print the deployment of the platform's stack as JSON, in the format of ``pulumi stack export``."""
    write(json.dumps(_with_stack(lambda stack: stack.export()), indent=4) + "\n")


def outputs() -> None:
    """Print the outputs of the platform's stack: addresses of its services."""
    values = _with_stack(lambda stack: stack.outputs()).by_name()
    result("stack-platform-outputs", {"outputs": values}, field_lines(values))


def _roles() -> "RolesState | None":
    """Read how roles were applied last; ``None`` for a platform on AWS, whose hosts apply roles themselves."""
    container = context.compose()
    if not container.env.is_local:
        say(f"{PLATFORM}: roles are not previewed: a new host applies them when it is made")
        return None

    async def work(parts: "PlatformParts") -> "RolesState":
        return parts.roles.read()

    return context.run_platform(container, work)


def _with_stack(work: "Callable[[PlatformStack], Awaitable[T]]") -> "T":
    """Do something with the platform's stack; only that of a local world needs the vendor."""
    container = context.compose()
    if container.env.is_local:
        return context.run_platform(container, lambda parts: work(parts.stack))

    async def unconnected() -> "T":
        return await work(container.aws_platform_stack)

    return context.run(unconnected())


def _changes(kind: str, changes: "Collection[Change]", *, remaining: bool) -> int:
    shown = stack_shapes.changes(changes)
    table(kind, "changes", ("kind", "type", "name", "properties"), shown, f"{PLATFORM}: no changes")
    if shown:
        say(f"{PLATFORM}: {counted(len(shown), 'change')}")
    return CHANGES_REMAIN if shown and remaining else 0
