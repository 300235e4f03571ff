"""What cells need of the registry, of an engine and of leases."""

from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol, TypeVar

from hermesops.cells.changes.preview import ChangePreview
from hermesops.model.cell import CellSpec
from hermesops.model.ids import MachineName
from hermesops.model.stack import Preview, StackRef, UpResult

T = TypeVar("T")

Program = Callable[[], Any]
"""A Pulumi program."""


class Guard(Protocol):
    """Stands before every run."""

    async def __call__(self, change_preview: ChangePreview, /) -> None:
        """Let the run begin, or raise RefusedError or UsageError, and nothing is changed."""


class Programs(Protocol):
    """Cells' Pulumi programs; see ``hermesops.stacks``."""

    def program(self, spec: CellSpec, released: frozenset[MachineName]) -> Program:
        """A cell's program, from what it should be and the machines whose protection it drops."""

    def urns(self, stack: StackRef, machines: Collection[MachineName]) -> Collection[str]:
        """What an engine calls machines of a cell, with what they need, when only they are meant."""


class HeldLease(Protocol):
    """A lease that is held."""

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work``, and stop it when the lease is lost."""


class Engine(Protocol):
    """Runs Pulumi programs; see ``hermesops.engine``."""

    async def up(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        may_destroy: Callable[[str], bool] | None = None,
        tell: Callable[[Any], None] | None = None,
    ) -> UpResult:
        """Make the stack what the program says; refuses to destroy what is not allowed."""

    async def preview(self, stack: StackRef, program: Program, *, targets: Collection[str] = ()) -> Preview:
        """What ``up`` would change."""

    async def refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Callable[[Any], None] | None = None
    ) -> UpResult:
        """Bring the state to what is really there."""

    async def preview_refresh(self, stack: StackRef, *, targets: Collection[str] = ()) -> Preview:
        """What ``refresh`` would write."""

    async def destroy(
        self,
        stack: StackRef,
        *,
        may_destroy: Callable[[str], bool] | None = None,
        tell: Callable[[Any], None] | None = None,
    ) -> UpResult:
        """Delete everything in the stack that is allowed to go."""

    async def outputs(self, stack: StackRef) -> Mapping[str, Any]:
        """The stack's outputs, secrets masked."""

    async def export(self, stack: StackRef) -> Mapping[str, Any]:
        """The stack's state."""

    async def stacks(self, project: str) -> list[StackRef]:
        """The stacks of a project."""
