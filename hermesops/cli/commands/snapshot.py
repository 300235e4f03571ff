"""``hermesops snapshot``: the vendor's images of one instance, private to it."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.instance import NoWait, User, Wait, change_instance, find_instance
from hermesops.views.agents import backups as backup_shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.operation import Operation
    from hermesops.vendor.justavps.wire import Image

app = Noun(no_args_is_help=True)


@app.command("list")
def list_(user: Annotated[str, typer.Argument(help="Only this one's.")] = "") -> None:
    """List a user's snapshots, or those of all users; of each user the newest first."""
    container = context.compose()
    instance = container.instances.find(user) if user else None

    async def read(connected: "Connected") -> "list[tuple[Instance, Image]]":
        if instance is None:
            return await connected.snapshots.of_all()
        return [(instance, image) for image in await connected.snapshots.of(instance.id)]

    rows = [backup_shapes.snapshot(image, owner) for owner, image in context.run_connected(container, read)]
    whose = f"no snapshots of {instance.title};" if instance else "no snapshots;"
    empty = advice(whose, ("snapshot", "create", user or "USER"), "takes one")
    columns = ("snapshot", "created_at", "status", "disk_gb")
    table("snapshot-list", "snapshots", columns if instance else ("user", *columns), rows, empty)


@app.command()
def create(user: User, reason: Why = "", no_wait: NoWait = False, wait: Wait = "") -> None:
    """Take a snapshot of a user's machine; its gateway is stopped until JustAVPS has the image, which may take long."""

    async def begin(connected: "Connected") -> "Operation":
        instance = connected.container.instances.find(user)
        return await connected.snapshots.open(instance, reason=reason or "asked for")

    change_instance("snapshot", user, begin, no_wait=no_wait, wait=wait)


@app.command()
def delete(
    user: User,
    snapshot: Annotated[str, typer.Argument(help="Which, by the beginning of its id.")],
    yes: Yes = False,
    reason: Why = "",
) -> None:
    """Delete a snapshot of an instance for good."""
    from hermesops.agents.instances.requests.snapshots import chosen

    container, instance = find_instance(user)
    images = context.run_connected(container, lambda connected: connected.snapshots.of(instance.id))
    image = chosen(images, snapshot, instance.title)
    agree(
        f"This deletes snapshot {image.id[:8]} of {user} in environment {container.env.name}.",
        expect=user,
        spared=f"the snapshots of {user} in {container.env.name} are untouched",
        yes=yes,
    )
    why = reason or "asked for"
    context.run_connected(container, lambda connected: connected.snapshots.delete(instance, image, reason=why))
    result("snapshot-delete", {"user": user, "snapshot": image.id}, [f"snapshot {image.id[:8]} of {user} is deleted"])
