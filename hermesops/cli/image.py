"""``hermesops image``: what machines boot from."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Json, Quiet, result, table

app = typer.Typer(help="Images that machines boot from.", no_args_is_help=True)


@app.command()
def build(
    name: Annotated[str, typer.Argument(help="Folder below images/.")] = "hermes-base",
    force: Annotated[bool, typer.Option("--force", help="Build even when nothing has changed.")] = False,
    json: Json = False,  # noqa: ARG001 - acts in its callback
    quiet: Quiet = False,  # noqa: ARG001 - acts in its callback
) -> None:
    """Build an image, boot it, verify it and record it; does nothing when its inputs have not changed."""
    composed = context.compose()

    async def work() -> dict[str, object]:
        async with composed.session() as session:
            return await session.build_image(name, force=force)

    image = context.run(work())
    result("image", {"image": image}, [f"{image['name']} {image['id']} {image['outcome']}"])


@app.command("list")
def list_(json: Json = False) -> None:  # noqa: ARG001 - json acts in its callback
    """List images the registry knows, newest first."""
    rows = context.compose().images()
    table("image-list", "images", ("name", "id", "digest", "created_at"), rows, "no images; hermesops image build")
