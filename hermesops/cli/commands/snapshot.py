"""``hermesops snapshot``: the vendor's images of one instance, private to it."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import Why, Yes, agree, result, table
from hermesops.cli.options.no_wait import NoWait, run_or_leave
from hermesops.cli.views import backup

if TYPE_CHECKING:
    from hermesops.justavps.wire import Image

app = Noun(no_args_is_help=True)

User = Annotated[str, typer.Argument(help="User id, alias or instance id.")]


@app.callback()
def group() -> None:
    """Snapshots: JustAVPS's images of one agent's machine, private to it; they are lost with the account there."""


@app.command("list")
def list_(user: User) -> None:
    """List a user's snapshots, newest first."""
    composed = context.compose()
    instance = composed.registry.instances.find(user)

    async def work() -> "list[Image]":
        async with composed.session() as session:
            return await session.snapshots.of(instance.id)

    rows = [backup.snapshot(one, instance) for one in context.run(work())]
    empty = f"no snapshots of {instance.title}; hermesops snapshot create {user} takes one"
    table("snapshot-list", "snapshots", ("snapshot", "created_at", "status", "disk_gb"), rows, empty)


@app.command()
def create(user: User, reason: Why = "", no_wait: NoWait = False) -> None:
    """Take a snapshot of a user's machine; its gateway is stopped until JustAVPS has the image, which may take long."""
    composed = context.compose()
    instance = composed.registry.instances.find(user)

    async def work() -> str:
        async with composed.session() as session:
            operation = await session.snapshots.open(instance, reason=reason or "asked for")
            return await run_or_leave(session.operations, operation, no_wait=no_wait)

    outcome = context.run(work())
    result("snapshot", {"user": user, "outcome": outcome}, [outcome])


@app.command()
def delete(
    user: User,
    snapshot: Annotated[str, typer.Argument(help="Which, by the beginning of its id.")],
    yes: Yes = False,
    reason: Why = "",
) -> None:
    """Delete a snapshot for good."""
    composed = context.compose()
    instance = composed.registry.instances.find(user)

    async def find() -> "Image":
        from hermesops.app.services.snapshots import chosen

        async with composed.session() as session:
            return chosen(await session.snapshots.of(instance.id), snapshot, instance.title)

    async def work(image: "Image") -> None:
        async with composed.session() as session:
            await session.snapshots.delete(instance, image, reason=reason or "asked for")

    image = context.run(find())
    agree(
        f"This deletes snapshot {image.id[:8]} of {user} in environment {composed.env.name}.",
        expect=user,
        spared=f"the snapshots of {user} in {composed.env.name} are untouched",
        yes=yes,
    )
    context.run(work(image))
    result("snapshot-delete", {"user": user, "snapshot": image.id}, [f"snapshot {image.id[:8]} of {user} is deleted"])
