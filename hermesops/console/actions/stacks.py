"""Runs of cells' stacks: of the registry's rows within the limits, or of a saved preview that an operator signed."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.agents.cells.bulk import failure_of
from hermesops.agents.cells.workflow import UpRequest
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview
from hermesops.console.actions.operations import begun, find_opened
from hermesops.errors import Hint, UsageError
from hermesops.model.access.console_operator import Role
from hermesops.model.fleet.cell import PLATFORM
from hermesops.model.operation import OperationKind
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views.agents import cells as shapes

if TYPE_CHECKING:
    from hermesops.agents.cells.changes.saved_previews import ApprovedPreview
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container

_MOST = 64 * 1024 * 1024
"""Bytes of a saved preview, as the command reads them at most."""


@dataclass(frozen=True)
class UpWork:
    """A run of a cell's stack that changes no more than the limits allow."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The changes of its resources; refused where they are beyond the limits."""
        cell = (await in_db_thread(container.cells.view, request.subject.name)).cell.name
        chosen = await in_db_thread(partial(container.choose_cells, names=[cell]))
        runs, cost = await chosen.preview_up()
        if failure := failure_of(runs):
            raise failure
        return Preview("stack", shapes.up_preview(runs, cost, ""))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Open the operation."""
        container = connected.container
        cell = (await in_db_thread(container.cells.view, request.subject.name)).cell.name
        return begun(connected, await container.stack_ups.leave(UpRequest(cell, reason=request.reason or None)))

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The run that was opened for the same reason."""
        return await find_opened(connected, request, OperationKind.STACK_UP)


@dataclass(frozen=True)
class UpSavedWork:
    """A run of a saved preview, exactly as its operator signed it; another operator's approval may go with it."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The changes that were signed, and by whom; refused where an approval is missing, or something changed."""
        await in_db_thread(_approved, container, request)
        run, cost, approved = await container.stack_ups.preview_saved(*await in_db_thread(_texts, request))
        return Preview("stack", shapes.up_preview([run], cost, str(approved)))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Open the operation, which makes the preview again and refuses any difference."""
        container = connected.container
        approved = await in_db_thread(_approved, container, request)
        saved, approval = await in_db_thread(_texts, request)
        return begun(
            connected, await container.stack_ups.leave(UpRequest(approved.preview.cell, saved=saved, approval=approval))
        )


def _approved(container: "Container", request: ActionRequest) -> "ApprovedPreview":
    approved = container.saved_previews.approved(*_texts(request))
    if approved.preview.cell == PLATFORM:
        raise UsageError(
            "a preview of the platform is run by its command", hint=Hint(("stack", "up", "--from", "FILE"))
        )
    return approved


def _texts(request: ActionRequest) -> tuple[str, str]:
    """The saved preview, and its approval; empty for none."""
    approval = request.value("approval")
    return _text(request.value("saved"), "saved"), _text(approval, "approval") if approval else ""


def _text(name: str, field: str) -> str:
    """The text of a file of this computer.

    Raises:
        UsageError: There is no such file, or it is no saved preview.
    """
    file = Path(name).expanduser()
    try:
        if not file.is_file():  # a device or a pipe has no end
            raise UsageError(f"there is no file {name}", field=field)
        with file.open("rb") as source:
            data = source.read(_MOST + 1)
        if len(data) > _MOST:
            raise UsageError(f"{name} is too large for a saved preview", field=field)
        return data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} cannot be read as text", field=field) from error


ACTIONS = (
    Action(About.CELL, "up", "Run its stack", ("stack", "up"), UpWork(), takes_reason=False, role=Role.ADMIN),
    Action(
        About.FLEET,
        "up-saved",
        "Run a saved preview of a stack",
        ("stack", "up"),
        UpSavedWork(),
        (
            ActionValue("saved", "File of the preview, on this computer", "--from", is_required=True),
            ActionValue("approval", "File of another operator's approval", "--approved-by"),
        ),
        takes_reason=False,
        left_because="the preview and its approval are files of an operator's computer",
    ),
)
