"""Work that is one operation: its preview is that of the operation's workflow, and its page shows the steps."""

import asyncio
import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from hermesops.console.actions.action import About, Action, ActionRequest, Begun, Preview
from hermesops.errors import HermesError, Hint, RefusedError
from hermesops.model.access.console_operator import Role
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.views import operations as shapes
from hermesops.views.agents import change_words
from hermesops.views.agents.change_previews import change_preview, checked

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.operation import Operation

_log = structlog.get_logger(__name__)

_SEARCHED = 20
"""Newest operations of an instance, or of a kind, among which the one of a request is looked for."""

DRY_RUN = "dry run"
"""The reason of a preview, as commands give it."""


@dataclass(frozen=True)
class OperationWork:
    """Work whose request opens an operation of an instance.

    Attributes:
        open: Opens it, as the command does, with the name of the user and the reason.
        is_foreseen: Whether its steps are known before it begins; else its checks run, and its preview has no steps.
    """

    open: "Callable[[Connected, ActionRequest], Awaitable[Operation]]"
    is_foreseen: bool = True

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The steps, downtime, costs and losses, as ``--dry-run`` shows them."""
        async with container.connect() as connected:
            dry = connected.dry_run()
            operation = await self.open(dry, replace(request, reason=DRY_RUN))
            if not self.is_foreseen:
                return Preview("checked", checked(request.subject.title, operation))
            planned = await dry.change_previews.of(operation)
        return Preview("operation", change_preview(planned), change_words.sentences(planned))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Open the operation."""
        return begun(connected, await self.open(connected, request))

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The operation of the instance that was opened for the same reason."""
        return await _find_opened_for_instance(connected, request)


@dataclass(frozen=True)
class ProvisionWork:
    """The provision of an agent that is there: it becomes as the registry has it, from any state in between."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The steps, downtime, costs and losses, as ``--dry-run`` shows them."""
        await asyncio.to_thread(_refuse_former, container, request)
        async with container.connect() as connected:
            planned = await connected.agent_previews.of(request.subject.name, Plan(request.value("plan")), region="")
        return Preview("operation", change_preview(planned), change_words.sentences(planned))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Open the operation, or find the one that has not ended."""
        plan = Plan(request.value("plan"))
        await asyncio.to_thread(_refuse_former, connected.container, request)
        _, operation = await connected.admission.admit(request.subject.name, plan, reason=request.reason or None)
        return begun(connected, operation)

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The operation of the instance that was opened for the same reason."""
        return await _find_opened_for_instance(connected, request)


def _refuse_former(container: "Container", request: ActionRequest) -> None:
    """Refuse a provision by the page of an instance that was terminated: it would make another agent.

    Raises:
        RefusedError: As above.
    """
    instance = container.instances.get(InstanceId(request.subject.id))
    if instance.status is InstanceStatus.TERMINATED:
        command = ("provision", instance.title, "--plan", request.value("plan"))
        raise RefusedError("the agent was terminated", hint=Hint(command, "makes the user another one"))


async def find_opened(connected: "Connected", request: ActionRequest, kind: OperationKind) -> Begun | None:
    """The operation of a kind that was opened for the reason of a request; ``None`` for none."""
    newest = await in_db_thread(connected.container.operation_directory.of_kind, kind, _SEARCHED)
    return _begun_among(connected, request, newest)


async def _find_opened_for_instance(connected: "Connected", request: ActionRequest) -> Begun | None:
    directory, instance_id = connected.container.operation_directory, InstanceId(request.subject.id)
    return _begun_among(connected, request, await in_db_thread(directory.of_instance, instance_id, _SEARCHED))


def _begun_among(connected: "Connected", request: ActionRequest, operations: "Sequence[Operation]") -> Begun | None:
    operation = next((row for row in operations if row.intent.get("reason") == request.reason), None)
    return begun(connected, operation) if operation else None


def begun(connected: "Connected", operation: "Operation") -> Begun:
    """An operation that is open, and goes on in this process or in the one that has it."""
    carry_on, leave = partial(_carry_on, connected, operation), partial(_leave, operation)
    return Begun(f"operations/{operation.id}", carry_on, leave, OperationId(operation.id))


async def _carry_on(connected: "Connected", operation: "Operation") -> None:
    """Bring an operation to its end, then ask its agent.

    Raises:
        HermesError: It has failed.
    """
    try:
        await connected.operations.resume(operation, wait_s=math.inf)
    finally:
        if _has_ended(operation, connected):
            await ask_agent(connected.container, operation.instance_id)


async def ask_agent(container: "Container", instance_id: "InstanceId | None") -> None:
    """Ask an agent once how it is: without a monitor, its state before an operation would stay on pages.

    Asking takes some seconds at most; an agent that does not answer is as unknown as before.
    """
    if instance_id is None:
        return
    try:
        await container.fleet_observation.ask_agents(instance_id)
    except HermesError as problem:
        _log.info("agent_not_asked", instance=instance_id, why=problem.message)


def _leave(operation: "Operation", connected: "Connected") -> str:
    """Leave an operation to the workers, unless it has ended."""
    if _has_ended(operation, connected):
        return ""
    connected.operations.leave_unless_held(operation)
    return f"operation {operation.id}"


def _has_ended(operation: "Operation", connected: "Connected") -> bool:
    return connected.container.operation_directory.get(operation.id).status.has_ended


@dataclass(frozen=True)
class ContinueWork:
    """The continuation of an operation from where it stopped."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The step at which it is."""
        history = await asyncio.to_thread(container.operation_directory.preview_continuation, request.subject.id)
        return Preview("unfinished", shapes.continuation_preview(history))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Continue it in this process, or follow the process that has it."""
        directory = connected.container.operation_directory
        return begun(connected, await asyncio.to_thread(directory.get, request.subject.id))

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The operation where it has ended; any other is safe to continue again."""
        operation = await in_db_thread(connected.container.operation_directory.get, request.subject.id)
        return begun(connected, operation) if operation.status.has_ended else None


@dataclass(frozen=True)
class AbandonWork:
    """The end of an operation that nobody continues."""

    async def preview(self, container: "Container", request: ActionRequest) -> Preview:
        """The step at which it stays, and everything that it leaves behind."""
        preview = await asyncio.to_thread(container.operation_directory.preview_abandon, request.subject.id)
        return Preview("unfinished", shapes.abandon_preview(preview))

    async def begin(self, connected: "Connected", request: ActionRequest) -> Begun:
        """Abandon it; its page names everything that is left behind."""
        container = connected.container
        operation = await asyncio.to_thread(container.operation_directory.get, request.subject.id)
        await container.abandon(operation, reason=request.reason)
        return Begun(f"operations/{operation.id}")

    async def find_begun(self, connected: "Connected", request: ActionRequest) -> Begun | None:
        """The operation, where it was abandoned for the same reason."""
        operation = await in_db_thread(connected.container.operation_directory.get, request.subject.id)
        is_done = operation.status is OperationStatus.ABANDONED and operation.outcome.endswith(request.reason)
        return Begun(f"operations/{operation.id}") if is_done else None


ACTIONS = (
    Action(
        About.OPERATION,
        "continue",
        "Continue",
        ("operation", "continue"),
        ContinueWork(),
        takes_reason=False,
        role=Role.OPERATOR,
    ),
    Action(
        About.OPERATION,
        "abandon",
        "Abandon",
        ("operation", "abandon"),
        AbandonWork(),
        destroys=True,
        role=Role.OPERATOR,
    ),
)
