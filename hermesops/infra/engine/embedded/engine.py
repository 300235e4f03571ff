"""The embedded engine: opens a stack, runs, saves, reports."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from hermesops.infra.engine.embedded.plugins.provider_pool import Plugins
from hermesops.infra.engine.embedded.protocol.values import masked
from hermesops.infra.engine.embedded.run.adoption import refuse_unadoptable
from hermesops.infra.engine.embedded.run.events import EventLog
from hermesops.infra.engine.embedded.state.file_backend import ended_now
from hermesops.infra.engine.embedded.state.journal import Journal
from hermesops.infra.engine.embedded.state.lock import Lock
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import EngineConfig, Reporter, RunKind, RunOptions
from hermesops.model.stack import Preview, StackRef, UpResult

if TYPE_CHECKING:
    from hermesops.infra.engine.embedded.run.stack_run import Run

HISTORY_KINDS = {"up": "update", "import": "resource-import"}
"""What the history calls the kinds of runs, where it calls them otherwise."""


class EmbeddedEngine(Engine):
    """Runs Pulumi programs without the pulumi CLI.

    Attributes:
        adopting: Packages of plugins that, in a Read without an id, find a resource by the name in its inputs. An
            interrupted create of any other package stops every run until a person has settled it.
    """

    name = "embedded"

    def __init__(self, config: EngineConfig) -> None:
        super().__init__(config)
        self.adopting = frozenset({"justavps"})
        self.plugins = Plugins(config.plugin_folders, dict(config.environment), str(config.backend))

    async def _preview(self, stack: StackRef, kind: RunKind, options: RunOptions) -> Preview:
        run = await self._run(stack, kind, options, EventLog(options.report), lock=None)
        _raise_error(run, "preview" if kind == "up" else f"preview of {kind}")
        return Preview(stack, run.changes())

    async def _change(self, stack: StackRef, kind: RunKind, options: RunOptions) -> UpResult:
        events = EventLog(options.report)
        run = partial(self._run, stack, kind, options)
        async with self._locked(stack, events.warning) as lock:
            if kind == "up" and options.may_destroy is not None:
                # A replacement is decided in the middle of a run, so a guard that promises "nothing changed" has to
                # see the whole plan first. Where that finds nothing to do, it was the run.
                plan = await run(EventLog(), lock=None)
                _raise_error(plan, "up")
                if plan.changed_nothing:
                    plan.journal.lock = lock
                    return self._ended(plan, kind)
            return self._ended(await run(events, lock=lock), kind)

    async def settle(self, stack: StackRef, *, report: Reporter | None = None) -> None:
        """Look up unfinished creates of an interrupted run: adopt existing resources, forget the others.

        Every other call does this first; this one is for the CLI, which would create it again.

        Raises:
            RefusedError: Its package cannot look things up by name; nothing changed.
            UnavailableError: It could not be looked up now.
        """
        events = EventLog(report)
        async with self._locked(stack, events.warning) as lock:
            _raise_error(await self._run(stack, "settle", RunOptions(), events, lock=lock), "look-up")

    async def _run(
        self, stack: StackRef, kind: RunKind, options: RunOptions, events: EventLog, *, lock: Lock | None
    ) -> "Run":
        """Run over the stack; without a lock it is a preview."""
        before, vault = self._opened(stack, self._backend.read(stack) or {})
        refuse_unadoptable(stack, before, self.adopting)
        journal = Journal(stack, self._backend, vault, lock=lock, dry=lock is None)
        journal.load(before)
        everything = not options.targets and kind in {"up", "refresh"}
        async with self.plugins.opened(journal, events, everything=everything) as providers:
            # It imports the SDK, which was loaded while the plugins started.
            from hermesops.infra.engine.embedded.run.stack_run import Run  # noqa: PLC0415 - as above

            run = Run(journal, before, events, providers, options, self._config.parallel)
            try:
                await run.do(kind)
            except asyncio.CancelledError:
                self._save(run, kind)
                raise
            return run

    def _ended(self, run: "Run", kind: RunKind) -> UpResult:
        self._save(run, kind)
        _raise_error(run, kind)
        return UpResult(run.journal.ref, run.changes(), dict(masked(dict(run.stack_outputs()))))

    def _save(self, run: "Run", kind: RunKind) -> None:
        journal = run.journal
        if journal.dry and not run.changed_nothing:
            return
        journal.dry = False
        journal.save()
        failed = run.applier.stopped or bool(run.applier.failures) or run.verdict is not None
        entry = ended_now(HISTORY_KINDS.get(kind, kind), started=int(run.started), failed=failed, changes=run.counts)
        self._backend.record(journal.ref, entry)


def _raise_error(run: "Run", what: str) -> None:
    error = run.error(what)
    if error is not None:
        raise error
