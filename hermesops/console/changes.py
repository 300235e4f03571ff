"""Changes that pages preview and open: the requests of the command line, run in this process to their end."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hermesops.base.waiting import cancel
from hermesops.errors import HermesError, Hint, UnknownOutcomeError

if TYPE_CHECKING:
    from hermesops.agents.instances.preview.change_preview import ChangePreview
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.operation import Operation

FACE = "console"
"""The face, as audit entries of its changes name it."""

log = structlog.get_logger()


@dataclass(frozen=True)
class Change:
    """A change of an instance that has a page.

    Attributes:
        title: Of its page and its button.
        words: Of its command, before the user.
        begin: Opens its operation for a user, with a reason.
    """

    title: str
    words: tuple[str, ...]
    begin: "Callable[[Connected, str, str], Awaitable[Operation]]"

    def command(self, user: str) -> tuple[str, ...]:
        """The same change as a command of hermesops."""
        return (*self.words, user, "--reason", "WHY")


CHANGES: Mapping[str, Change] = {
    "restart": Change(
        "Restart the gateway",
        ("instance", "restart"),
        lambda connected, user, reason: connected.instance_requests.restart(user, reason=reason),
    ),
}
"""By the last part of their path."""


@dataclass
class Changes:
    """Previews changes, opens their operations and runs them."""

    container: "Container"
    _running: "dict[asyncio.Task[None], Operation | None]" = field(default_factory=dict)

    async def user_of(self, instance: "Instance") -> str:
        """The name by which requests find this very instance: its user, or its id where the user has a newer one."""
        same = await asyncio.to_thread(self.container.instances.find, instance.title)
        return instance.title if same.id == instance.id else instance.id

    async def preview(self, change: Change, instance: "Instance") -> "ChangePreview":
        """The preview of a change, as ``--dry-run`` shows it: every check runs, nothing is written.

        Raises:
            HermesError: The change is refused now.
        """
        user = await self.user_of(instance)
        async with self.container.connect() as connected:
            dry = connected.dry_run()
            return await dry.change_previews.of(await change.begin(dry, user, "dry run"))

    async def open(self, change: Change, instance: "Instance", reason: str) -> "Operation":
        """Open the operation of a change, and run it on in the background.

        Raises:
            HermesError: The change is refused; nothing was changed.
        """
        user, opened = await self.user_of(instance), asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(change, user, reason, opened))
        self._running[task] = None
        task.add_done_callback(self._running.pop)
        operation: Operation = await asyncio.shield(opened)
        return operation

    async def close(self) -> "list[Operation]":
        """Stop running operations and leave them to the workers; returns those that have not ended."""
        running = dict(self._running)
        await cancel(*running)
        operations = [operation for operation in running.values() if operation is not None]
        left = [operation for operation in operations if not await asyncio.to_thread(self._has_ended, operation)]
        if left:
            async with self.container.connect() as connected:
                for operation in left:
                    await asyncio.to_thread(connected.operations.leave_unless_held, operation)
        return left

    def _has_ended(self, operation: "Operation") -> bool:
        return self.container.operation_directory.get(operation.id).status.has_ended

    def _note(self, operation: "Operation") -> None:
        """Keep the operation that this task runs, so that it is left to the workers where the console ends first."""
        task = asyncio.current_task()
        if task in self._running:
            self._running[task] = operation

    async def _run(self, change: Change, user: str, reason: str, opened: "asyncio.Future[Operation]") -> None:
        try:
            with self.container.acting_via(FACE):
                async with self.container.connect() as connected:
                    operation = await change.begin(connected, user, reason)
                    self._note(operation)
                    opened.set_result(operation)
                    await connected.operations.resume(operation, wait_s=math.inf)
        except HermesError as error:
            if opened.done():
                log.warning("operation_not_ended", why=error.message)  # its page shows the step and the problem
            else:
                opened.set_exception(error)
        finally:
            if not opened.done():
                opened.set_exception(
                    UnknownOutcomeError(
                        "the console ended meanwhile: the operation may have been opened",
                        hint=Hint(("operation", "list")),
                    )
                )
