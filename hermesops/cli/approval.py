"""``hermesops approval``: a second operator's word for what another one saved and signed."""

from pathlib import Path
from typing import Annotated

import typer

from hermesops.cli import context, render
from hermesops.cli.console import Yes, agree, result, say
from hermesops.cli.naming import read_saved, write_saved
from hermesops.cli.noun import Noun

app = Noun(no_args_is_help=True)

Preview = Annotated[Path, typer.Argument(help="A saved preview: stack preview CELL --save FILE.", dir_okay=False)]


@app.callback()
def group() -> None:
    """Approvals: a second operator's word for what another one saved."""


@app.command()
def sign(
    preview: Preview,
    save: Annotated[Path, typer.Option("--save", help="File that takes the approval.", dir_okay=False)],
    yes: Yes = False,
) -> None:
    """Look at a saved preview, and approve it with your key; nobody approves what they asked for."""
    from hermesops.app.approvals import Approvals, asked_by_preview

    composed = context.compose()
    seen, signer = composed.guards.open(read_saved(preview))
    asked = asked_by_preview(seen, signer)
    for change in seen.changes:
        say(f"{change.kind.value} {change.name}{': ' if change.properties else ''}{', '.join(change.properties)}")
    agree(
        f"{signer} asks for {len(seen.changes)} changes of {seen.cell} in {seen.environment}; everything would cost "
        f"{seen.cost} then.",
        expect=seen.cell,
        spared="nothing was approved",
        yes=yes,
    )
    text, approver = Approvals(composed.env).sign(asked)
    write_saved(save, text)
    shape = {"what": asked.what, "asked_by": signer, "approved_by": approver, "digest": asked.digest}
    line = f"{approver} approved: hermesops stack up --from {preview} --approved-by {save}"
    result("approval-signed", shape, [line])


@app.command()
def show(approval: Annotated[Path, typer.Argument(help="An approval.", dir_okay=False)]) -> None:
    """Show what an approval is about and who gave it; its signature is checked."""
    from hermesops.app.approvals import Approvals

    given, signer = Approvals(context.environment()).read(read_saved(approval))
    shape = {
        "what": given.asked.what,
        "environment": given.asked.environment,
        "asked_by": given.asked.by,
        "approved_by": signer,
        "at": render.moment(given.at),
        "digest": given.asked.digest,
    }
    result("approval", shape, render.fields(shape))
