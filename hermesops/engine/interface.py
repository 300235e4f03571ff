"""What both engines do, so that nobody above needs to know which one runs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hermesops.model.stack import Preview, StackRef, UpResult

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
    """Runs Pulumi programs against stacks; one stack is changed by one caller at a time."""

    name: str

    async def preview(
        self, stack: StackRef, program: Program, *, config: StackConfig | None = None, tell: Tell | None = None
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
        may_destroy: MayDestroy | None = None,
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Make the world as the program says. Safe to repeat, also after it was killed.

        ``may_destroy`` is asked for every resource that would be deleted or replaced, before anything is changed;
        None allows everything.

        Raises:
            RefusedError: Something would be destroyed that ``may_destroy`` does not allow, somebody else holds the
                stack, or the provider refused; nothing changed.
            PartlyDoneError: A step failed after others had changed something; the same call finishes the rest.
            UnavailableError: The provider could not reach its API; the same call may be repeated.
            UnknownOutcomeError: A provider died in the middle of a change.
        """

    async def destroy(
        self, stack: StackRef, *, may_destroy: MayDestroy | None = None, tell: Tell | None = None
    ) -> UpResult:
        """Delete everything in a stack; the stack itself stays, empty. Raises as ``up``."""

    async def preview_destroy(self, stack: StackRef, *, tell: Tell | None = None) -> Preview:
        """Find out what ``destroy`` would delete; changes nothing."""

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
