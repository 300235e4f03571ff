"""``hermesops image``: what machines boot from."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import advice, result, table
from hermesops.cli.views import shapes

if TYPE_CHECKING:
    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.machines.image.build import Built

app = Noun(no_args_is_help=True)


@app.command()
def build(
    name: Annotated[str, typer.Argument(help="Folder below images/.")] = "hermes-base",
) -> None:
    """Build an image, boot it, verify it and record it; builds nothing when there is one of the same inputs.

    Agents' machines made from now on boot from hermes-base, and run the release that is built of its locks; the
    platform's machine of a local world boots from hermes-platform. Simulated machines come with everything the roles
    install: there hermes-base is saved from one as it comes, without download or Ansible, in a second.
    """
    composed = context.compose()

    async def work(session: "Runtime") -> "Built":
        async with composed.hold_lease(f"image/{name}"):
            return await session.image_builder.build(await session.recipe_to_build(name))

    built = context.run_connected(composed, work)
    made = built.manifest
    composed.registry.images.record(made.image_id, name=made.name, digest=made.digest, manifest=made.to_json())
    data = {"name": made.name, "id": made.image_id, "digest": made.digest, "made": built.made, "seconds": made.seconds}
    how = f"built in {sum(made.seconds.values()):.0f} s" if built.made else "is up to date"
    result("image", {"image": data}, [f"{made.name} {made.image_id} {how}"])


@app.command("list")
def list_() -> None:
    """List the images in the registry, newest first."""
    rows = [
        {"name": image.name, "id": image.id, "digest": image.digest, "created_at": shapes.timestamp(image.created_at)}
        for image in context.compose().registry.images.list()
    ]
    table(
        "image-list", "images", ("name", "id", "digest", "created_at"), rows, advice("no images;", ("image", "build"))
    )
