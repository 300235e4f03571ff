"""The engine that is the pulumi CLI, driven through the Automation API.

The program runs in this process; the CLI does the rest. Its events are translated in cli_events and nowhere else.
"""

import asyncio
import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.base.network.channels import keep_pulumi_direct
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.infra.engine.cli_events import CliEvents, changes_of, done_by, error_of, is_lost
from hermesops.infra.engine.cli_workspace import Workspace
from hermesops.infra.engine.embedded.state.lock import mark_child, outwait, refuse_others, remove_dead
from hermesops.infra.engine.embedded.state.storage import Folder
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import (
    EngineConfig,
    MayDestroy,
    Program,
    Progress,
    Reporter,
    RunKind,
    RunOptions,
    UnsupportedByEmbeddedError,
    destroy_refusal,
    stopped,
)
from hermesops.model.stack import Change, ChangeKind, Preview, StackRef, UpResult

if TYPE_CHECKING:
    from pulumi.automation import Stack

Act = Callable[["Stack"], object]
"""One command of the CLI on an open stack."""


class CliEngine(Engine):
    """Runs Pulumi programs by the pulumi CLI.

    State and outputs are read from the stack's file: the Automation API's export would write every secret in the
    clear.
    """

    name = "cli"

    def __init__(self, command: Path, config: EngineConfig) -> None:
        super().__init__(config)
        self._command = command
        self._workspace = Workspace(command, self._backend, config)

    async def _preview(self, stack: StackRef, kind: RunKind, options: RunOptions) -> Preview:
        events = CliEvents(options.report)
        common = self._common(options, events)
        acts: dict[RunKind, Act] = {
            "up": lambda opened: opened.preview(**common),
            "destroy": lambda opened: opened.preview_destroy(**common),
            "refresh": lambda opened: opened.preview_refresh(**common, run_program=False),
        }
        await self._do(stack, options, acts[kind], events, "preview" if kind == "up" else f"preview of {kind}")
        return Preview(stack, tuple(events.refreshed) if kind == "refresh" else changes_of(events))

    async def _change(self, stack: StackRef, kind: RunKind, options: RunOptions) -> UpResult:
        await self._prepare(stack, options.report)
        if options.may_destroy is not None:
            unnoticed = RunOptions(options.program, targets=options.targets, config=options.config)
            refuse_unnamed(await self._preview(stack, kind, unnoticed), options.may_destroy)
        if kind == "import":
            return await self._import(stack, options)
        events = CliEvents(options.report)
        common = {**self._common(options, events), "show_secrets": False}
        acts: dict[RunKind, Act] = {
            "up": lambda opened: opened.up(**common),
            "destroy": lambda opened: opened.destroy(**common),
            "refresh": lambda opened: opened.refresh(**common, run_program=False),
        }
        await self._do_locked(stack, options, acts[kind], events, kind)
        changes = tuple(events.refreshed) if kind == "refresh" else changes_of(events)
        return UpResult(stack, changes, {} if kind == "destroy" else await self.outputs(stack))

    def _common(self, options: RunOptions, events: CliEvents) -> dict[str, Any]:
        targets = sorted(options.targets) or None
        return {"parallel": self._config.parallel, "target": targets, "on_event": events.take}

    async def _import(self, stack: StackRef, options: RunOptions) -> UpResult:
        """Import things; the CLI loads its Python plugin for it and sends no events."""
        had = {(r["urn"], r.get("id")) for r in (self._backend.read(stack) or {}).get("resources", [])}
        imports = options.imports

        def act(opened: "Stack") -> None:
            for protect in (True, False):
                resources: Any = [{"type": w.type, "name": w.name, "id": w.id} for w in imports if w.protect is protect]
                if resources:
                    opened.import_resources(
                        resources=resources, protect=protect, generate_code=False, show_secrets=False
                    )

        await self._do_locked(stack, options, act, CliEvents(options.report), "import")
        new = [r for r in self._backend.existing(stack).get("resources", []) if (r["urn"], r.get("id")) not in had]
        names = {(w.type, w.id): w.name for w in imports}
        changes = [
            Change(ChangeKind.IMPORT, r["urn"], r["type"], names[r["type"], r["id"]], r["id"])
            for r in new
            if (r["type"], r.get("id")) in names
        ]
        return UpResult(stack, tuple(changes), await self.outputs(stack))

    async def _prepare(self, stack: StackRef, report: Reporter | None) -> None:
        """Clear remains of interrupted runs that would stop the CLI: locks, and creates with an unknown outcome."""
        folder, warn = self._backend.lock_folder(stack), partial(_warn, report)
        await outwait(folder, self._token_of(stack), report=warn)
        refuse_others(folder, stack=stack.stack, report=warn)
        pending = (self._backend.read(stack) or {}).get("pending_operations") or []
        if any(op["type"] == "creating" for op in pending):
            await self._settle_creates(stack, report)

    async def _settle_creates(self, stack: StackRef, report: Reporter | None) -> None:
        """Settle interrupted creates: the CLI would repeat them, and keeps their mark for ever.

        The files are the same, so the embedded engine looks them up.
        """
        from hermesops.infra.engine.embedded.engine import EmbeddedEngine  # noqa: PLC0415  loaded only here

        try:
            await EmbeddedEngine(self._config).settle(stack, report=report)
        except UnsupportedByEmbeddedError as error:
            raise RefusedError(
                f"an interrupted run began to create a resource that cannot be looked up: {error.message}",
                hint=f"delete it at its vendor if it exists, then run "
                f"`pulumi refresh --clear-pending-creates --stack {stack.stack}`",
            ) from error

    async def _do_locked(self, ref: StackRef, options: RunOptions, act: Act, events: CliEvents, what: str) -> None:
        """Run a command of the CLI that holds the stack's lock: marked as ours, and removed if the CLI dies with it."""
        folder = self._backend.lock_folder(ref)
        events.at_first = partial(_mark, folder)
        try:
            await self._do(ref, options, act, events, what)
        except HermesError:
            remove_dead(folder, report=partial(_warn, events.report))
            raise

    async def _do(self, ref: StackRef, options: RunOptions, act: Act, events: CliEvents, what: str) -> None:
        from pulumi.automation import errors  # noqa: PLC0415  loads the SDK

        keep_pulumi_direct()
        raised: list[Exception] = []

        def work() -> None:
            with self._workspace.opened(ref, _remembering(options.program, raised), options.config) as opened:
                act(opened)

        task = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Ctrl-C has reached the CLI as well; it ends its calls and saves, and we wait for that.
            await asyncio.wait({task})
            raise
        except errors.CommandError as error:
            text = "\n".join(map(str, (error, *raised)))
            lost = is_lost(events, text) and not any(isinstance(error_raised, HermesError) for error_raised in raised)
            ended: Exception = error_of(events, what, ref, text if lost else str(error))
            if raised and not events.has_failures and not lost and not isinstance(ended, UnknownOutcomeError):
                ended = raised[0]
                if isinstance(ended, HermesError):
                    ended = stopped(ended, what, ref, done_by(events, what))
            raise ended from error
        except (errors.InvalidVersionError, OSError) as error:
            raise UnavailableError(f"the pulumi CLI {self._command} cannot be used: {error}") from error


def _remembering(program: Program, raised: list[Exception]) -> Program:
    """Wrap a program so that its exception is added to ``raised``: the CLI passes on only the text.

    An exception inside an ``apply`` comes after the program has returned; only the CLI's text of it remains.
    """

    def remembered() -> Any:  # noqa: ANN401  whatever the program returns
        try:
            return program()
        except Exception as error:
            raised.append(error)
            raise

    return remembered


def _mark(folder: Folder) -> None:
    with contextlib.suppress(HermesError):  # without the mark the run is as good, and a death in it needs a person
        mark_child(folder)


def _warn(report: Reporter | None, text: str) -> None:
    if report:
        report(Progress("warning", message=text))


def refuse_unnamed(preview: Preview, may_destroy: MayDestroy) -> None:
    """Refuse a run that would destroy resources that nobody named.

    Raises:
        RefusedError: Lists these resources.
    """
    unnamed = [
        change
        for change in preview.destructive
        if change.id and not change.type.startswith("pulumi:") and not may_destroy(change.urn)
    ]
    if unnamed:
        raise destroy_refusal([f"{change.name} ({change.type})" for change in unnamed])
