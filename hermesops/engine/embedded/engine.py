"""The embedded engine: opens a stack, runs, saves, reports."""
# ruff: noqa: ARG002  until refresh, import and targets are built

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermesops.engine.embedded import urns
from hermesops.engine.embedded.events import Diagnostic, Event, EventLog, StepEvent
from hermesops.engine.embedded.journal import Journal
from hermesops.engine.embedded.outcome import changes_of, error_of
from hermesops.engine.embedded.providers import Providers
from hermesops.engine.embedded.rpc import PluginHost
from hermesops.engine.embedded.run import Run, refuse_unresolved
from hermesops.engine.embedded.secrets import PassphraseVault
from hermesops.engine.embedded.state import Deployment
from hermesops.engine.embedded.store import FileBackend
from hermesops.engine.embedded.stored import StoredStacks
from hermesops.engine.embedded.unsupported import UnsupportedByEmbeddedError
from hermesops.engine.embedded.values import has_secret, masked
from hermesops.engine.interface import MayDestroy, Program, Progress, StackConfig, Tell
from hermesops.model.stack import Import, Preview, StackRef, UpResult

HostFactory = Callable[[str], PluginHost]
"""Makes what starts plugins, given the address that takes their log lines."""


class EmbeddedEngine(StoredStacks):
    """Runs Pulumi programs without the pulumi CLI.

    Args:
        folder: The file backend's folder, or its URL as the CLI takes it.
        passphrase: Asked for only when a secret is read or written.
        environment: The whole environment of plugin processes; its ``PATH`` is searched for plugins.
        plugin_folders: Searched before ``PATH``; None means beside this Python, where our own plugin is installed.
        parallel: How many steps at once.
        adopting: Packages whose Create finds an existing thing by its name, so that an interrupted one may be repeated.
        host: Replaces plugin processes; for tests.
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
    ) -> None:
        super().__init__(FileBackend(folder), passphrase)
        self._folder = folder
        self._environment = dict(environment)
        self._plugin_folders = (Path(sys.executable).parent,) if plugin_folders is None else tuple(plugin_folders)
        self._parallel = parallel
        self._adopting = adopting
        self._host = host

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
        events = EventLog(_listener(tell))
        run = await self._ran(stack, events, program=program, config=config, dry=True)
        self._raise(run, "preview")
        return Preview(stack, changes_of(run))

    async def preview_destroy(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``destroy`` would delete; see Engine."""
        self._backend.existing(stack)
        run = await self._ran(stack, EventLog(_listener(tell)), program=None, config=None, dry=True)
        self._raise(run, "preview of destroy")
        return Preview(stack, changes_of(run))

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
        events = EventLog(_listener(tell))
        with self._locked(stack, events):
            if may_destroy is not None:
                # A replacement is decided in the middle of a run, so a guard that promises "nothing changed" has to
                # look at the whole plan first. Where that finds nothing to do, it was the run.
                quiet = EventLog()
                plan = await self._ran(stack, quiet, program=program, config=config, dry=True, may_destroy=may_destroy)
                self._raise(plan, "up")
                if plan.changed_nothing:
                    return self._closed(plan, "update")
            run = await self._ran(stack, events, program=program, config=config, dry=False, may_destroy=may_destroy)
            return self._closed(run, "update")

    async def destroy(
        self,
        stack: StackRef,
        *,
        targets: Collection[str] = (),
        may_destroy: MayDestroy | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Delete everything in a stack; see Engine."""
        self._backend.existing(stack)
        events = EventLog(_listener(tell))
        with self._locked(stack, events):
            run = await self._ran(stack, events, program=None, config=None, dry=False, may_destroy=may_destroy)
            return self._closed(run, "destroy")

    async def preview_refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``refresh`` would write; see Engine."""
        raise UnsupportedByEmbeddedError("refresh", stack.stack)

    async def refresh(self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None) -> UpResult:
        """Bring the state to what is really there; see Engine."""
        raise UnsupportedByEmbeddedError("refresh", stack.stack)

    async def import_resources(
        self,
        stack: StackRef,
        wanted: Sequence[Import],
        *,
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Take things that exist into a stack; see Engine."""
        raise UnsupportedByEmbeddedError("import", stack.stack)

    async def _ran(
        self,
        stack: StackRef,
        events: EventLog,
        *,
        program: Program | None,
        config: StackConfig | None,
        dry: bool,
        may_destroy: MayDestroy | None = None,
    ) -> Run:
        before, vault = self._opened(stack, self._backend.read(stack) or {})
        refuse_unresolved(before, self._adopting)
        journal = Journal(stack, self._backend, vault, dry=dry)
        journal.load(before)
        async with self._providers(before, vault, events) as providers:
            run = Run(
                journal=journal,
                before=before,
                events=events,
                providers=providers,
                parallel=self._parallel,
                dry=dry,
                config=config or StackConfig({}),
                may_destroy=may_destroy,
            )
            try:
                await (run.destroy() if program is None else run.program(program))
            except asyncio.CancelledError:
                self._save(run, "update" if program else "destroy")
                raise
            return run

    @contextlib.asynccontextmanager
    async def _providers(
        self, before: Deployment, vault: PassphraseVault, events: EventLog
    ) -> AsyncIterator[Providers]:
        unlocking = None
        if any(has_secret(dict(r.inputs)) or has_secret(dict(r.outputs)) for r in before.resources):
            # The key takes a second; it is derived beside the start of the plugin and the SDK.
            unlocking = asyncio.create_task(asyncio.to_thread(vault.unlock))
        server, host, address = await self._host_for(before, events)
        providers = Providers(host, vault, folder=str(self._folder), engine_address=address)
        try:
            await asyncio.to_thread(load_sdk)
            if unlocking:
                await unlocking
            yield providers
        finally:
            await asyncio.shield(providers.close())
            if server is not None:
                server.close()

    async def _host_for(self, before: Deployment, events: EventLog) -> tuple[Any, PluginHost, str]:
        if self._host is not None:
            return None, self._host(""), ""
        from hermesops.engine.embedded.logserver import LogServer  # noqa: PLC0415  loads gRPC
        from hermesops.engine.embedded.monitor import EngineLog  # noqa: PLC0415  loads gRPC
        from hermesops.engine.embedded.plugin import ProcessHost  # noqa: PLC0415  loads gRPC

        log = EngineLog(events, asyncio.get_running_loop())
        server = LogServer(log.Log)
        host = ProcessHost(self._plugin_folders, self._environment, server.address)
        for resource in before.resources:
            if urns.is_default_provider(resource.urn) and not resource.delete:
                host.expect(urns.package_of(resource.type))
        return server, host, server.address

    def _closed(self, run: Run, kind: str) -> UpResult:
        self._save(run, kind)
        self._raise(run, "destroy" if kind == "destroy" else "up")
        return UpResult(run.journal.ref, changes_of(run), dict(masked(dict(run.stack_outputs()))))

    def _save(self, run: Run, kind: str) -> None:
        journal = run.journal
        if journal.dry and not run.changed_nothing:
            return
        journal.dry = False
        journal.save()
        failed = run.halt.stopped or bool(run.halt.failures) or run.verdict is not None
        self._backend.record(
            journal.ref,
            {
                "kind": kind,
                "startTime": int(run.started),
                "message": "",
                "environment": {},
                "config": {},
                "version": 0,
                "result": "failed" if failed else "succeeded",
                "endTime": int(time.time()),
                "resourceChanges": run.counts,
            },
        )

    @staticmethod
    def _raise(run: Run, what: str) -> None:
        error = error_of(run, what)
        if error is not None:
            raise error


def load_sdk() -> None:
    """Import the pulumi SDK, which takes about half a second the first time."""
    import pulumi.runtime.proto.provider_pb2_grpc  # noqa: F401, PLC0415  loaded only by commands that run a program


def _listener(tell: Tell | None) -> Callable[[Event], None] | None:
    if tell is None:
        return None
    kinds = {"pre": "begun", "outputs": "done", "failed": "failed"}

    def listen(event: Event) -> None:
        urn = event.urn if isinstance(event, Diagnostic) else event.step.urn
        kind = urns.type_of(urn) if urn else ""
        name = urns.name_of(urn) if urn else ""
        match event:
            case Diagnostic():
                tell(Progress(event.severity, type=kind, name=name, message=event.message.rstrip()))
            case StepEvent():
                if not urns.is_default_provider(urn):
                    tell(Progress(kinds[event.phase], str(event.step.op), kind, name))

    return listen
