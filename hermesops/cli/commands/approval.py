"""``hermesops approval``: a second operator's signature on a saved preview or list of another one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, say
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.files import read_saved, write_saved
from hermesops.cli.printing.fields import field_lines
from hermesops.views.access import approvals as shapes

if TYPE_CHECKING:
    from hermesops.access.identity.approval import Asked
    from hermesops.app.container import Container

app = Noun(no_args_is_help=True)

Preview = Annotated[
    Path, typer.Argument(help="A saved preview (stack preview --save) or a list (approval request).", dir_okay=False)
]


@app.command()
def sign(
    preview: Preview,
    save: Annotated[Path, typer.Option("--save", help="File that takes the approval.", dir_okay=False)],
    yes: Yes = False,
) -> None:
    """Review a saved preview or a list of agents, and approve it with your key; never your own."""
    from hermesops.access.identity.mass_change import FILE
    from hermesops.agents.cells.changes.approvals import asked_by_preview

    container, text = context.compose(), read_saved(preview)
    if FILE.is_kind_of(text):
        return _sign_list(container, text, preview, save, yes=yes)
    saved_preview, signer = container.saved_previews.open(text)
    requested = asked_by_preview(saved_preview, signer)
    for change in saved_preview.changes:
        say(f"{change.kind.value} {change.name}{': ' if change.properties else ''}{', '.join(change.properties)}")
    agree(
        f"{signer} asks for {counted(len(saved_preview.changes), 'change')} of {saved_preview.cell} "
        f"in {saved_preview.environment}"
        + (f"; everything would cost {saved_preview.cost} then." if saved_preview.cost else "."),
        expect=saved_preview.cell,
        spared="nothing was approved",
        yes=yes,
    )
    _signed(container, requested, save, signer, ("stack", "up", "--from", str(preview)))
    return None


def _sign_list(container: "Container", text: str, listed: Path, save: Path, *, yes: bool) -> None:
    from hermesops.access.identity.mass_change import asked_by

    change, signer = container.mass_changes.open(text)
    requested = asked_by(change, signer)
    titles = {instance.id: instance.title for instance in container.instances.list()}
    for instance in change.instances:
        say(f"{titles.get(instance, 'unknown')} ({instance})")
    agree(
        f"{signer} asks to terminate or resize {counted(len(change.instances), 'agent')} of {change.environment}: "
        f"{change.reason}",
        expect=str(len(change.instances)),
        spared="nothing was approved",
        yes=yes,
    )
    _signed(container, requested, save, signer, ("instance", "terminate", "USER", "--from", str(listed)))


def _signed(container: "Container", requested: "Asked", save: Path, signer: str, then: tuple[str, ...]) -> None:
    from hermesops.agents.cells.changes.approvals import Approvals

    approval, approver = Approvals(container.env).sign(requested)
    write_saved(save, approval)
    result(
        "approval-signed",
        shapes.signed(requested, signer, approver),
        [advice(f"{approver} approved:", (*then, "--approved-by", str(save)))],
    )


@app.command()
def request(
    users: Annotated[list[str], typer.Argument(help="User ids, aliases or instance ids.")],
    save: Annotated[Path, typer.Option("--save", help="File that takes the list.", dir_okay=False)],
    reason: Why,
) -> None:
    """Request approval to terminate or resize many agents: a list, signed with your key, for a second operator."""
    container = context.compose()
    instances = [container.instances.find(user).id for user in users]
    write_saved(save, container.mass_changes.request(instances, reason=reason))
    line = advice(
        f"{counted(len(instances), 'agent')}; another operator:", ("approval", "sign", str(save), "--save", "APPROVAL")
    )
    result("approval-requested", {"instances": sorted(instances), "file": str(save)}, [line])


@app.command()
def show(approval: Annotated[Path, typer.Argument(help="An approval.", dir_okay=False)]) -> None:
    """Show the subject and the signer of an approval, and verify its signature."""
    from hermesops.agents.cells.changes.approvals import Approvals

    document, signer = Approvals(context.environment()).read(read_saved(approval))
    shape = shapes.approval(document, signer)
    result("approval", shape, field_lines(shape))
