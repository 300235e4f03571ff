"""``hermesops approval``: a second operator's signature on what another one saved and signed."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, say
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.files import read_saved, write_saved
from hermesops.cli.views import rendering
from hermesops.views import shapes

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
    seen, signer = container.saved_previews.open(text)
    asked = asked_by_preview(seen, signer)
    for change in seen.changes:
        say(f"{change.kind.value} {change.name}{': ' if change.properties else ''}{', '.join(change.properties)}")
    agree(
        f"{signer} asks for {len(seen.changes)} changes of {seen.cell} in {seen.environment}"
        + (f"; everything would cost {seen.cost} then." if seen.cost else "."),
        expect=seen.cell,
        spared="nothing was approved",
        yes=yes,
    )
    _signed(container, asked, save, signer, ("stack", "up", "--from", str(preview)))
    return None


def _sign_list(container: "Container", text: str, listed: Path, save: Path, *, yes: bool) -> None:
    from hermesops.access.identity.mass_change import asked_by

    change, signer = container.mass_changes.open(text)
    asked = asked_by(change, signer)
    titles = {one.id: one.title for one in container.instances.list()}
    for instance in change.instances:
        say(f"{titles.get(instance, 'nobody')} ({instance})")
    agree(
        f"{signer} asks that these {len(change.instances)} agents of {change.environment} end or change their plan: "
        f"{change.reason}",
        expect=str(len(change.instances)),
        spared="nothing was approved",
        yes=yes,
    )
    _signed(container, asked, save, signer, ("instance", "terminate", "USER", "--from", str(listed)))


def _signed(container: "Container", asked: "Asked", save: Path, signer: str, then: tuple[str, ...]) -> None:
    from hermesops.agents.cells.changes.approvals import Approvals

    approval, approver = Approvals(container.env).sign(asked)
    write_saved(save, approval)
    shape = {"what": asked.what, "asked_by": signer, "approved_by": approver, "digest": asked.digest}
    result("approval-signed", shape, [advice(f"{approver} approved:", (*then, "--approved-by", str(save)))])


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
    line = advice(f"{len(instances)} agents; another operator:", ("approval", "sign", str(save), "--save", "APPROVAL"))
    result("approval-requested", {"instances": sorted(instances), "file": str(save)}, [line])


@app.command()
def show(approval: Annotated[Path, typer.Argument(help="An approval.", dir_okay=False)]) -> None:
    """Show what an approval is about and who gave it; its signature is checked."""
    from hermesops.agents.cells.changes.approvals import Approvals

    given, signer = Approvals(context.environment()).read(read_saved(approval))
    shape = {
        "what": given.asked.what,
        "environment": given.asked.environment,
        "asked_by": given.asked.by,
        "approved_by": signer,
        "at": shapes.timestamp(given.at),
        "digest": given.asked.digest,
    }
    result("approval", shape, rendering.fields(shape))
