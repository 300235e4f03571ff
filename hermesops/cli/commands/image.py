"""``hermesops image``: images that machines boot from, built and listed."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import advice, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.dry_run import DryRun, show
from hermesops.views.machines import images as shapes

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.machines.image.directory import ImagePreview

app = Noun(no_args_is_help=True)


@app.command(waits=True)
def build(
    name: Annotated[str, typer.Argument(help="Folder below images/.")] = "hermes-base",
    release: Annotated[
        str,
        typer.Option(
            help="Release that its machines run at first, as of a source; default: the one of the image's locks.",
            show_default=False,
        ),
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Build an image, boot it, verify it and record it; builds nothing when there is one of the same inputs.

    Agents' machines made from now on boot from hermes-base, and run the release that is built of its locks, or another
    one of the store; the platform's machine of a local world boots from hermes-platform. Simulated machines come with
    everything the roles install: there hermes-base is saved from one as it comes, without download or Ansible, in a
    second.
    """
    container = context.compose()
    if dry_run:
        preview = context.run_connected(container, partial(_preview, name=name, release=release))
        same = f"image {preview.same.id} has the same inputs" if preview.same else "no image has the same inputs"
        show("image-preview", shapes.preview(preview), [f"inputs {preview.digest}", same])
        return
    built = context.run_connected(container, lambda connected: connected.image_builds.build(name, release=release))
    manifest = built.manifest
    how = f"built in {sum(manifest.seconds.values()):.0f} s" if built.made else "is up to date"
    result("image", {"image": shapes.built(built)}, [f"{manifest.name} {manifest.image_id} {how}"])


async def _preview(connected: "Connected", name: str, release: str) -> "ImagePreview":
    return await connected.image_builds.preview(name, release=release)


@app.command("list")
def list_() -> None:
    """List the images in the registry, newest first."""
    rows = [shapes.image(image) for image in context.compose().images.list()]
    table("image-list", "images", ("name", "id", "created_at"), rows, advice("no images;", ("image", "build")))
