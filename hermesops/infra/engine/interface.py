"""The interface of both engines; callers need not know which one runs."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.stored_stacks import StoredStacks
from hermesops.infra.engine.options import EngineConfig, MayDestroy, Program, Reporter, RunKind, RunOptions, StackConfig
from hermesops.model.stack import Import, Preview, StackRef, UpResult


class Engine(StoredStacks, ABC):
    """Runs Pulumi programs against stacks; one stack is changed by one caller at a time.

    ``targets`` are URNs; none means everything. What is not a target is neither read nor changed.
    """

    name: str

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(FileBackend(config.backend), config.passphrase, config.token_of)
        self._config = config

    @abstractmethod
    async def _preview(self, stack: StackRef, kind: RunKind, options: RunOptions) -> Preview:
        """Predict the changes of a run; changes nothing and takes no lock."""

    @abstractmethod
    async def _change(self, stack: StackRef, kind: RunKind, options: RunOptions) -> UpResult:
        """Do a run under the stack's lock."""

    async def preview(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        config: StackConfig | None = None,
        report: Reporter | None = None,
    ) -> Preview:
        """Predict the changes of ``up``; changes nothing, takes no lock.

        Raises:
            UsageError: The program uses something that this engine does not do.
            RefusedError: The provider refuses an input, or the state cannot be used.
        """
        options = RunOptions(program, targets=targets, config=config or StackConfig(), report=report)
        return await self._preview(stack, "up", options)

    async def up(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        may_destroy: MayDestroy | None = None,
        config: StackConfig | None = None,
        report: Reporter | None = None,
    ) -> UpResult:
        """Make resources match the program. Safe to repeat, also after a kill.

        A create that an interrupted run began is looked up by its name first: an existing resource is taken over, a
        missing one is made anew, and none is made twice.

        ``may_destroy`` is asked for every resource that would be deleted or replaced, before anything is changed;
        None allows everything.

        Raises:
            RefusedError: Something would be destroyed that ``may_destroy`` does not allow, a target does not exist, an
                interrupted create cannot be looked up, or the provider refused; nothing changed.
            PartlyDoneError: A step failed after others had changed something; the same call finishes the rest.
            UnavailableError: The provider could not reach its API, or somebody else holds the stack; the same call may
                be repeated.
            UnknownOutcomeError: A provider died in the middle of a change.
        """
        options = RunOptions(
            program, targets=targets, may_destroy=may_destroy, config=config or StackConfig(), report=report
        )
        return await self._change(stack, "up", options)

    async def destroy(
        self,
        stack: StackRef,
        *,
        targets: Collection[str] = (),
        may_destroy: MayDestroy | None = None,
        report: Reporter | None = None,
    ) -> UpResult:
        """Delete everything in a stack, or the targets; the stack itself stays. Raises as ``up``."""
        self._backend.existing(stack)
        return await self._change(stack, "destroy", RunOptions(targets=targets, may_destroy=may_destroy, report=report))

    async def preview_destroy(
        self, stack: StackRef, *, targets: Collection[str] = (), report: Reporter | None = None
    ) -> Preview:
        """Predict the deletions of ``destroy``; changes nothing."""
        self._backend.existing(stack)
        return await self._preview(stack, "destroy", RunOptions(targets=targets, report=report))

    async def refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), report: Reporter | None = None
    ) -> UpResult:
        """Update the state to the existing resources; changes nothing but the state.

        In the result a changed resource is an ``update``, and one that is gone, and now forgotten, a ``delete``.
        A drift in outputs alone is written and is no change.

        Raises:
            UsageError: There is no such stack.
            UnavailableError: The provider could not read everything; the state stays as it was where it did not.
        """
        self._backend.existing(stack)
        return await self._change(stack, "refresh", RunOptions(targets=targets, report=report))

    async def preview_refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), report: Reporter | None = None
    ) -> Preview:
        """Predict the writes of ``refresh``; changes nothing, takes no lock."""
        self._backend.existing(stack)
        return await self._preview(stack, "refresh", RunOptions(targets=targets, report=report))

    async def import_resources(
        self,
        stack: StackRef,
        imports: Sequence[Import],
        *,
        config: StackConfig | None = None,
        report: Reporter | None = None,
    ) -> UpResult:
        """Import existing things into a stack, as ``pulumi import`` does; writes no program.

        The program has to name them by the next ``up``, which otherwise wants to delete them. One that the stack
        has already, by name and id, stays as it is. A stack that does not exist yet is made.

        Raises:
            RefusedError: One of them does not exist, or the stack has another one of that name; nothing changed.
        """
        return await self._change(
            stack, "import", RunOptions(imports=imports, config=config or StackConfig(), report=report)
        )
