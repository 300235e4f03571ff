"""What both engines do, so that nobody above needs to know which one runs."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hermesops.errors import HermesError, PartlyDoneError, RefusedError
from hermesops.model.stack import (
    Change,
    Import,
    Preview,
    StackHistoryEntry,
    StackRef,
    StateVersion,
    Unfinished,
    UpResult,
)

Program = Callable[[], Any]
"""A Pulumi program: called with nothing, registers resources through the pulumi SDK."""

MayDestroy = Callable[[str], bool]
"""Answers for a URN whether the caller named that resource as one that may be deleted or replaced."""


@dataclass(frozen=True)
class Progress:
    """A line of narration.

    Attributes:
        kind: ``begun``, ``done`` or ``failed`` for a step; ``info``, ``warning`` or ``error`` for a message.
        change: What is done, as ``create`` or ``delete``; empty for a message.
        name: The resource's logical name; empty when it is about none.
    """

    kind: str
    change: str = ""
    type: str = ""
    name: str = ""
    message: str = ""


Tell = Callable[[Progress], None]


@dataclass(frozen=True)
class StackConfig:
    """A stack's configuration, as ``pulumi config set`` would make it.

    Attributes:
        values: Full keys (``project:name``) and plain values.
        secret: Keys whose values are secret.
    """

    values: Mapping[str, str]
    secret: frozenset[str] = frozenset()


class Engine(Protocol):
    """Runs Pulumi programs against stacks; one stack is changed by one caller at a time.

    ``targets`` are URNs; none means everything. What is not a target is neither looked at nor changed.
    """

    name: str

    async def preview(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> Preview:
        """Find out what ``up`` would change; changes nothing, takes no lock.

        Raises:
            UsageError: The program uses something that this engine does not do.
            RefusedError: The provider refuses what the program wants, or the state cannot be used.
        """

    async def up(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        may_destroy: MayDestroy | None = None,
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Make the world as the program says. Safe to repeat, also after it was killed.

        A create that an earlier run began and never saw end is looked up by its name first: what is there is taken
        over, what is not is made anew, and nothing is made twice.

        ``may_destroy`` is asked for every resource that would be deleted or replaced, before anything is changed;
        None allows everything.

        Raises:
            RefusedError: Something would be destroyed that ``may_destroy`` does not allow, somebody else holds the
                stack, a target is not there, an interrupted create cannot be looked up, or the provider refused;
                nothing changed.
            PartlyDoneError: A step failed after others had changed something; the same call finishes the rest.
            UnavailableError: The provider could not reach its API; the same call may be repeated.
            UnknownOutcomeError: A provider died in the middle of a change.
        """

    async def destroy(
        self,
        stack: StackRef,
        *,
        targets: Collection[str] = (),
        may_destroy: MayDestroy | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Delete everything in a stack, or the targets; the stack itself stays. Raises as ``up``."""

    async def preview_destroy(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``destroy`` would delete; changes nothing."""

    async def refresh(self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None) -> UpResult:
        """Bring the state to what is really there; changes nothing but the state.

        In the result a changed resource is an ``update``, and one that is gone, and now forgotten, a ``delete``.
        A drift in outputs alone is written and is no change.

        Raises:
            UsageError: There is no such stack.
            UnavailableError: The provider could not look at everything; the state stays as it was where it did not.
        """

    async def preview_refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``refresh`` would write; changes nothing, takes no lock."""

    async def import_resources(
        self,
        stack: StackRef,
        wanted: Sequence[Import],
        *,
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Take things that exist into a stack, as ``pulumi import`` does; writes no program.

        The program has to name them by the next ``up``, which otherwise wants to delete them. One that the stack
        has already, by name and id, stays as it is. A stack that is not there yet is made.

        Raises:
            RefusedError: One of them does not exist, or the stack has another one of that name; nothing changed.
        """

    async def import_state(self, stack: StackRef, document: Mapping[str, Any]) -> None:
        """Replace a stack's state by an exported one; what it was before is kept as a copy.

        Creates that had not ended come along and are looked up by the next ``up``. A stack that is not there yet
        is made.

        Raises:
            UsageError: It is no exported state of version 3.
            RefusedError: It is of another stack or contradicts itself, or somebody else holds the stack.
        """

    async def state_versions(self, stack: StackRef, *, limit: int) -> Sequence[StateVersion]:
        """List the newest copies of a stack's state, newest first; every operation leaves one, and one is made before.

        Works where the state itself is damaged or gone. Reads each of them.
        """

    async def rollback_state(self, stack: StackRef, version: str = "") -> StateVersion:
        """Put a copy of a stack's state in its place; the state as it is becomes a copy first.

        The world stays as it is: a preview or a refresh tells where it has moved on since.

        Args:
            stack: Whose.
            version: Which copy; empty takes the newest sound one that differs from the state.

        Raises:
            UsageError: There is no such copy.
            RefusedError: The copy is damaged, there is no sound one, or somebody else holds the stack.
        """

    async def history(self, stack: StackRef) -> Sequence[StackHistoryEntry]:
        """List what was done to a stack, newest first.

        Raises:
            UsageError: There is no such stack.
        """

    async def unfinished(self, stack: StackRef) -> Sequence[Unfinished]:
        """List what an interrupted run had begun and nobody has seen end; empty for a stack that is in order.

        Raises:
            UsageError: There is no such stack.
        """

    async def outputs(self, stack: StackRef, *, show_secrets: bool = False) -> Mapping[str, Any]:
        """Read a stack's outputs; secrets read ``[secret]`` unless asked for.

        Raises:
            UsageError: There is no such stack.
        """

    async def export(self, stack: StackRef) -> dict[str, Any]:
        """Read a stack's state as ``pulumi stack export`` prints it; secrets stay encrypted.

        Raises:
            UsageError: There is no such stack.
        """

    async def stacks(self, project: str) -> list[StackRef]:
        """List the stacks of a project; reads no state."""


def stopped(error: HermesError, what: str, stack: StackRef, done: Collection[Change]) -> HermesError:
    """Turn what a program raised into what its run ends with.

    An error that promises "nothing changed" must not be raised when something did.

    Args:
        error: What the program raised.
        what: What it ran for: ``up`` …
        stack: The stack.
        done: What had changed outside the state before.
    """
    if not done or not isinstance(error, RefusedError):
        return error
    listed = ", ".join(f"{change.name} ({change.kind})" for change in done)
    return PartlyDoneError(
        f"{what} of stack {stack.stack} stopped: {error.message}; done before: {listed}", hint=error.hint
    )
