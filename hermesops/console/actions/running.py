"""Actions that pages have begun: they run in this process to their end, or are left to the workers."""

import asyncio
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import structlog

from hermesops.base.waiting import cancel
from hermesops.console.actions.action import Action, ActionRequest, Begun, Preview
from hermesops.errors import HermesError, Hint, UnknownOutcomeError

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.console.topics.questions import Question

FACE = "console"
"""The face, as audit entries of its actions name it."""

log = structlog.get_logger()


@dataclass
class RunningActions:
    """Begins actions, and carries them on after their pages were answered."""

    container: "Container"
    _running: "dict[asyncio.Task[None], Begun | None]" = field(default_factory=dict)

    def offers(self, action: Action) -> bool:
        """Whether an action can be begun here: each can."""
        del action
        return True

    def offered(self, action: Action) -> Action:
        """The action with the values that can be given here: all."""
        return action

    async def preview(self, action: Action, request: ActionRequest) -> Preview:
        """The effects of an action, if it began now; nothing is written.

        Raises:
            HermesError: It is refused now.
        """
        return await action.work.preview(self.container, request)

    async def answer(self, question: "Question", filters: Mapping[str, str]) -> Mapping[str, Any]:
        """The shape of a page's content, for which others are asked.

        Raises:
            HermesError: Nobody answers, or a filter cannot be read.
        """
        return await question.ask(self.container, filters, self.offered)

    async def begin(self, action: Action, request: ActionRequest, slots: asyncio.Semaphore | None = None) -> str:
        """Begin an action in the operator's name, and carry it on in the background.

        Args:
            slots: Of a bulk action: so many go on at the same time.

        Returns:
            Path of the page that shows it, below the console's.

        Raises:
            HermesError: It is refused; nothing was changed.
        """
        opened: asyncio.Future[Begun] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._run(action, request, opened, slots))
        self._running[task] = None
        task.add_done_callback(self._running.pop)
        return (await asyncio.shield(opened)).page

    async def close(self) -> list[str]:
        """Stop what runs and leave it to the workers; returns the names of what has not ended."""
        running = dict(self._running)
        await cancel(*running)
        leaving = [begun.leave for begun in running.values() if begun is not None and begun.leave is not None]
        if not leaving:
            return []
        async with self.container.connect() as connected:
            names = [await asyncio.to_thread(leave, connected) for leave in leaving]
        return [name for name in names if name]

    def _note(self, begun: Begun) -> None:
        """Keep what this task carries on, so that it is left to the workers where the console ends first."""
        task = asyncio.current_task()
        if task in self._running:
            self._running[task] = begun

    async def _run(
        self,
        action: Action,
        request: ActionRequest,
        opened: "asyncio.Future[Begun]",
        slots: asyncio.Semaphore | None,
    ) -> None:
        try:
            with self.container.acting_via(FACE):
                async with self.container.connect() as connected:
                    begun = await action.work.begin(connected, request)
                    self._note(begun)
                    opened.set_result(begun)
                    if begun.go_on is not None:
                        async with slots or nullcontext():
                            await begun.go_on()
        except HermesError as error:
            if opened.done():
                log.warning("action_not_ended", action=action.name, why=error.message)  # its page shows the problem
            else:
                opened.set_exception(error)
        finally:
            if not opened.done():
                opened.set_exception(
                    UnknownOutcomeError(
                        "unknown outcome: the console stopped meanwhile, and the action may have begun",
                        hint=Hint(("operation", "list")),
                    )
                )
