"""What cells need of other packages: the registry, an engine, programs, leases."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from hermesops.agents.cells.changes.preview import ChangePreview
from hermesops.model.cell import CellSpec
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.stack import Preview, StackRef, StateVersion, UpResult

T = TypeVar("T")

Program = Callable[[], Any]
"""A Pulumi program."""

Guard = Callable[[ChangePreview], Awaitable[None]]
"""Lets a run begin, or raises RefusedError or UsageError, and nothing is changed."""


class Programs(Protocol):
    """Cells' Pulumi programs; see ``hermesops.infra.stacks``."""

    def program(self, spec: CellSpec, released: frozenset[MachineName]) -> Program:
        """A cell's program, from what it should be and the machines whose protection it drops."""

    def importing(self, spec: CellSpec, ids: Mapping[MachineName, MachineId]) -> Program:
        """A cell's program that imports some of its machines by their ids."""

    def urns(self, stack: StackRef, machines: Collection[MachineName]) -> Collection[str]:
        """What an engine calls machines of a cell, with what they need, when only they are meant."""


class HeldLease(Protocol):
    """A lease that is held."""

    async def guard(self, work: Coroutine[Any, Any, T]) -> T:
        """Run ``work``, and stop it when the lease is lost."""


class Engine(Protocol):
    """Runs Pulumi programs; see ``hermesops.infra.engine``."""

    async def up(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        may_destroy: Callable[[str], bool] | None = None,
        report: Callable[[Any], None] | None = None,
    ) -> UpResult:
        """Make the stack what the program says; refuses to destroy what is not allowed."""

    async def preview(self, stack: StackRef, program: Program, *, targets: Collection[str] = ()) -> Preview:
        """What ``up`` would change."""

    async def refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), report: Callable[[Any], None] | None = None
    ) -> UpResult:
        """Update the state to what the vendor has."""

    async def preview_refresh(self, stack: StackRef, *, targets: Collection[str] = ()) -> Preview:
        """What ``refresh`` would write."""

    async def destroy(
        self,
        stack: StackRef,
        *,
        may_destroy: Callable[[str], bool] | None = None,
        report: Callable[[Any], None] | None = None,
    ) -> UpResult:
        """Delete everything in the stack that may be destroyed."""

    async def outputs(self, stack: StackRef) -> Mapping[str, Any]:
        """The stack's outputs, secrets masked."""

    async def export(self, stack: StackRef) -> Mapping[str, Any]:
        """The stack's state."""

    async def stacks(self, project: str) -> list[StackRef]:
        """The stacks of a project."""


class StateCopies(Protocol):
    """Keeps copies of stacks' states; see ``hermesops.infra.engine``."""

    async def state_versions(self, stack: StackRef, *, limit: int) -> Sequence[StateVersion]:
        """The newest copies of a stack's state, newest first."""

    async def rollback_state(self, stack: StackRef, version: str = "") -> StateVersion:
        """Replace the state by a copy; empty: the newest undamaged one that differs."""

    async def import_state(self, stack: StackRef, document: Mapping[str, Any]) -> None:
        """Replace the state by an exported one."""
