"""The embedded engine: opens a stack, runs, saves, reports."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from hermesops.engine.embedded.plugins.run_plugins import HostFactory, Plugins
from hermesops.engine.embedded.protocol.values import masked
from hermesops.engine.embedded.run.events import EventLog
from hermesops.engine.embedded.run.listener import listener
from hermesops.engine.embedded.run.outcome import changes_of, error_of
from hermesops.engine.embedded.run.resources.interrupted_creates import refuse_unadoptable
from hermesops.engine.embedded.run.stack_run import Run
from hermesops.engine.embedded.state.file_backend import FileBackend, ended_now
from hermesops.engine.embedded.state.journal import Journal
from hermesops.engine.embedded.state.lock import Lock, Token
from hermesops.engine.embedded.state.stored_stacks import StoredStacks
from hermesops.engine.interface import MayDestroy, Program, StackConfig, Tell
from hermesops.model.stack import Import, Preview, StackRef, UpResult

Work = Callable[[Run], Awaitable[None]]
"""What a run does."""


class EmbeddedEngine(StoredStacks):
    """Runs Pulumi programs without the pulumi CLI.

    Args:
        folder: The file backend's folder, or its URL, as the CLI would be given it.
        passphrase: Asked for only when a secret is read or written.
        environment: The whole environment of plugin processes; its ``PATH`` is searched for plugins.
        plugin_folders: Searched before ``PATH``; None means beside this Python, where our own plugin is installed.
        parallel: How many steps at once.
        adopting: Packages whose plugins, asked to Read without an id, find a thing by the name in its inputs; of
            others an interrupted create stops every run until a person has looked.
        host: Replaces plugin processes; for tests.
        token_of: The token of the lease under which a stack is changed: locks that bear an earlier one are stale.
    """

    name = "embedded"

    def __init__(
        self,
        folder: str | Path,
        *,
        passphrase: Callable[[], str],
        environment: Mapping[str, str],
        plugin_folders: Sequence[Path] | None = None,
        parallel: int = 16,
        adopting: frozenset[str] = frozenset({"justavps"}),
        host: HostFactory | None = None,
        token_of: Callable[[StackRef], Token | None] = lambda _: None,
    ) -> None:
        super().__init__(FileBackend(folder), passphrase, token_of)
        folders = (Path(sys.executable).parent,) if plugin_folders is None else tuple(plugin_folders)
        self._plugins = Plugins(folders, dict(environment), str(folder), host)
        self._parallel = parallel
        self._adopting = adopting

    async def preview(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> Preview:
        """Find out what ``up`` would change; see Engine."""
        events = EventLog(listener(tell))
        run = await self._ran(stack, events, _program(program), "update", targets=targets, config=config, lock=None)
        return _preview(run, "preview")

    async def preview_destroy(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``destroy`` would delete; see Engine."""
        self._backend.existing(stack)
        run = await self._ran(stack, EventLog(listener(tell)), Run.destroy, "destroy", targets=targets, lock=None)
        return _preview(run, "preview of destroy")

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
        """Make the world as the program says; see Engine."""
        events = EventLog(listener(tell))
        ran = partial(
            self._ran,
            work=_program(program),
            kind="update",
            targets=targets,
            config=config,
            may_destroy=may_destroy,
        )
        async with self._locked(stack, events) as lock:
            if may_destroy is not None:
                # A replacement is decided in the middle of a run, so a guard that promises "nothing changed" has to
                # look at the whole plan first. Where that finds nothing to do, it was the run.
                plan = await ran(stack, EventLog(), lock=None)
                _raise(plan, "up")
                if plan.changed_nothing:
                    plan.journal.lock = lock
                    return self._closed(plan, "update")
            return self._closed(await ran(stack, events, lock=lock), "update")

    async def destroy(
        self,
        stack: StackRef,
        *,
        targets: Collection[str] = (),
        may_destroy: MayDestroy | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Delete everything in a stack, or the targets; see Engine."""
        self._backend.existing(stack)
        events = EventLog(listener(tell))
        async with self._locked(stack, events) as lock:
            run = await self._ran(
                stack, events, Run.destroy, "destroy", targets=targets, lock=lock, may_destroy=may_destroy
            )
            return self._closed(run, "destroy")

    async def preview_refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``refresh`` would write; see Engine."""
        self._backend.existing(stack)
        run = await self._ran(stack, EventLog(listener(tell)), Run.refresh, "refresh", targets=targets, lock=None)
        return _preview(run, "preview of refresh")

    async def refresh(self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None) -> UpResult:
        """Bring the state to what is really there; see Engine."""
        self._backend.existing(stack)
        events = EventLog(listener(tell))
        async with self._locked(stack, events) as lock:
            run = await self._ran(stack, events, Run.refresh, "refresh", targets=targets, lock=lock)
            return self._closed(run, "refresh")

    async def import_resources(
        self,
        stack: StackRef,
        wanted: Sequence[Import],
        *,
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Take things that exist into a stack; see Engine."""
        events = EventLog(listener(tell))

        async def work(run: Run) -> None:
            await run.take_in(wanted)

        async with self._locked(stack, events) as lock:
            run = await self._ran(stack, events, work, "resource-import", config=config, lock=lock)
            return self._closed(run, "resource-import")

    async def settle(self, stack: StackRef, *, tell: Tell | None = None) -> None:
        """Look up what an interrupted run had begun to create: take over what is there, forget what is not.

        Every other call does this first; this one is for the CLI, which would create it again.

        Raises:
            RefusedError: Its package cannot look things up by name; nothing changed.
            UnavailableError: It could not be looked up now.
        """
        events = EventLog(listener(tell))
        async with self._locked(stack, events) as lock:
            _raise(await self._ran(stack, events, Run.settle_creates, "settle", lock=lock), "look-up")

    async def _ran(
        self,
        stack: StackRef,
        events: EventLog,
        work: Work,
        kind: str,
        *,
        lock: Lock | None,
        targets: Collection[str] = (),
        config: StackConfig | None = None,
        may_destroy: MayDestroy | None = None,
    ) -> Run:
        before, vault = self._opened(stack, self._backend.read(stack) or {})
        refuse_unadoptable(stack, before, self._adopting)
        journal = Journal(stack, self._backend, vault, lock=lock, dry=lock is None)
        journal.load(before)
        everything = not targets and kind in {"update", "refresh"}
        async with self._plugins.opened(before, vault, events, everything=everything) as providers:
            run = Run(
                journal=journal,
                before=before,
                events=events,
                providers=providers,
                parallel=self._parallel,
                dry=lock is None,
                config=config or StackConfig({}),
                may_destroy=may_destroy,
                targets=frozenset(targets),
            )
            try:
                await work(run)
            except asyncio.CancelledError:
                self._save(run, kind)
                raise
            return run

    def _closed(self, run: Run, kind: str) -> UpResult:
        self._save(run, kind)
        _raise(run, SAID.get(kind, kind))
        return UpResult(run.journal.ref, changes_of(run), dict(masked(dict(run.stack_outputs()))))

    def _save(self, run: Run, kind: str) -> None:
        journal = run.journal
        if journal.dry and not run.changed_nothing:
            return
        journal.dry = False
        journal.save()
        failed = run.halt.stopped or bool(run.halt.failures) or run.verdict is not None
        self._backend.record(journal.ref, ended_now(kind, started=int(run.started), failed=failed, changes=run.counts))


SAID = {"update": "up", "resource-import": "import"}
"""What operators call the kinds of the history."""


def _program(program: Program) -> Work:
    async def work(run: Run) -> None:
        await run.program(program)

    return work


def _preview(run: Run, what: str) -> Preview:
    _raise(run, what)
    return Preview(run.journal.ref, changes_of(run))


def _raise(run: Run, what: str) -> None:
    error = error_of(run, what)
    if error is not None:
        raise error
