"""The engine that is the pulumi CLI, driven through the Automation API.

The program runs in this process; the CLI does the rest. Its events are translated in cli_events and nowhere else.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.engine.cli_events import CliEvents, changes_of, done_by, error_of
from hermesops.engine.cli_workspace import Workspace
from hermesops.engine.embedded.run.destroy_guard import refusal
from hermesops.engine.embedded.state.file_backend import FileBackend
from hermesops.engine.embedded.state.lock import Token, mark_child, outwait, refuse_others, remove_dead
from hermesops.engine.embedded.state.storage.place import Folder
from hermesops.engine.embedded.state.stored_stacks import StoredStacks
from hermesops.engine.embedded.unsupported import UnsupportedByEmbeddedError
from hermesops.engine.interface import MayDestroy, Program, Progress, StackConfig, Tell, stopped
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.stack import Change, ChangeKind, Import, Preview, StackRef, UpResult

if TYPE_CHECKING:
    from pulumi.automation import Stack


class CliEngine(StoredStacks):
    """Runs Pulumi programs by the pulumi CLI.

    State and outputs are read from the stack's file: the Automation API's export would write every secret in the
    clear.

    Args:
        command: The CLI's executable.
        folder: The file backend's folder or URL.
        passphrase: Asked for before every command of the CLI that opens a stack, which always wants it.
        environment: The environment of the CLI and, through it, of the plugins.
        plugin_folders: Put before ``PATH``; None means beside this Python.
        parallel: How many steps at once.
        token_of: The token of the lease under which a stack is changed: locks that bear an earlier one are stale.
    """

    name = "cli"

    def __init__(
        self,
        command: Path,
        folder: str | Path,
        *,
        passphrase: Callable[[], str],
        environment: Mapping[str, str],
        plugin_folders: Sequence[Path] | None = None,
        parallel: int = 16,
        token_of: Callable[[StackRef], Token | None] = lambda _: None,
    ) -> None:
        super().__init__(FileBackend(folder), passphrase, token_of)
        self._folder = folder
        self._command = command
        self._environment = environment
        self._plugin_folders = plugin_folders
        self._parallel = parallel
        self._workspace = Workspace(
            command, self._backend, passphrase=passphrase, environment=environment, plugin_folders=plugin_folders
        )

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
        told = CliEvents(tell)

        def act(opened: "Stack") -> None:
            opened.preview(parallel=self._parallel, target=_listed(targets), on_event=told.hear)

        await self._do(stack, program, config, act, told, "preview")
        return Preview(stack, changes_of(told))

    async def preview_destroy(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``destroy`` would delete; see Engine."""
        self._backend.existing(stack)
        told = CliEvents(tell)

        def act(opened: "Stack") -> None:
            opened.preview_destroy(parallel=self._parallel, target=_listed(targets), on_event=told.hear)

        await self._do(stack, _nothing, None, act, told, "preview of destroy")
        return Preview(stack, changes_of(told))

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
        await self._prepare(stack, tell)
        if may_destroy is not None:
            refuse_unnamed(await self.preview(stack, program, targets=targets, config=config), may_destroy)
        told = CliEvents(tell)

        def act(opened: "Stack") -> None:
            opened.up(parallel=self._parallel, target=_listed(targets), on_event=told.hear, show_secrets=False)

        await self._change(stack, program, config, act, told, "up")
        return UpResult(stack, changes_of(told), await self.outputs(stack))

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
        await self._prepare(stack, tell)
        if may_destroy is not None:
            refuse_unnamed(await self.preview_destroy(stack, targets=targets), may_destroy)
        told = CliEvents(tell)

        def act(opened: "Stack") -> None:
            opened.destroy(parallel=self._parallel, target=_listed(targets), on_event=told.hear, show_secrets=False)

        await self._change(stack, _nothing, None, act, told, "destroy")
        return UpResult(stack, changes_of(told))

    async def preview_refresh(
        self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None
    ) -> Preview:
        """Find out what ``refresh`` would write; see Engine."""
        self._backend.existing(stack)
        told = CliEvents(tell)

        def act(opened: "Stack") -> None:
            opened.preview_refresh(
                parallel=self._parallel, target=_listed(targets), on_event=told.hear, run_program=False
            )

        await self._do(stack, _nothing, None, act, told, "preview of refresh")
        return Preview(stack, tuple(told.refreshed))

    async def refresh(self, stack: StackRef, *, targets: Collection[str] = (), tell: Tell | None = None) -> UpResult:
        """Bring the state to what is really there; see Engine."""
        self._backend.existing(stack)
        await self._prepare(stack, tell)
        told = CliEvents(tell)

        def act(opened: "Stack") -> None:
            opened.refresh(
                parallel=self._parallel,
                target=_listed(targets),
                on_event=told.hear,
                show_secrets=False,
                run_program=False,
            )

        await self._change(stack, _nothing, None, act, told, "refresh")
        return UpResult(stack, tuple(told.refreshed), await self.outputs(stack))

    async def import_resources(
        self,
        stack: StackRef,
        wanted: Sequence[Import],
        *,
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Take things that exist into a stack; see Engine. The CLI loads its Python plugin for it and tells nothing."""
        await self._prepare(stack, tell)
        had = {(r["urn"], r.get("id")) for r in (self._backend.read(stack) or {}).get("resources", [])}

        def act(opened: "Stack") -> None:
            for protect in (True, False):
                asked: Any = [{"type": w.type, "name": w.name, "id": w.id} for w in wanted if w.protect is protect]
                if asked:
                    opened.import_resources(resources=asked, protect=protect, generate_code=False, show_secrets=False)

        await self._change(stack, _nothing, config, act, CliEvents(tell), "import")
        new = [r for r in self._backend.existing(stack).get("resources", []) if (r["urn"], r.get("id")) not in had]
        names = {(w.type, w.id): w.name for w in wanted}
        changes = [
            Change(ChangeKind.IMPORT, r["urn"], r["type"], names[r["type"], r["id"]], r["id"])
            for r in new
            if (r["type"], r.get("id")) in names
        ]
        return UpResult(stack, tuple(changes), await self.outputs(stack))

    async def _prepare(self, stack: StackRef, tell: Tell | None) -> None:
        """Clear what interrupted runs left and the CLI would stumble over: locks, and creates that nobody saw end."""
        folder, warn = self._backend.lock_folder(stack), partial(_warn, tell)
        await outwait(folder, self._token_of(stack), tell=warn)
        refuse_others(folder, stack=stack.stack, tell=warn)
        pending = (self._backend.read(stack) or {}).get("pending_operations") or []
        if any(op["type"] == "creating" for op in pending):
            await self._settle_creates(stack, tell)

    async def _settle_creates(self, stack: StackRef, tell: Tell | None) -> None:
        """Settle interrupted creates: the CLI would repeat them, and keeps their mark for ever.

        The files are the same, so the embedded engine looks them up.
        """
        from hermesops.engine.embedded.engine import EmbeddedEngine  # noqa: PLC0415  loaded only here

        settling = EmbeddedEngine(
            self._folder,
            passphrase=self._passphrase,
            environment=self._environment,
            plugin_folders=self._plugin_folders,
            token_of=self._token_of,
        )
        try:
            await settling.settle(stack, tell=tell)
        except UnsupportedByEmbeddedError as error:
            raise RefusedError(
                f"an interrupted run began to create something, and it cannot be looked up: {error.message}",
                hint=f"look for it at its vendor and delete what is there, then run "
                f"`pulumi refresh --clear-pending-creates --stack {stack.stack}`",
            ) from error

    async def _change(
        self,
        ref: StackRef,
        program: Program,
        config: StackConfig | None,
        act: Callable[["Stack"], None],
        told: CliEvents,
        what: str,
    ) -> None:
        """Run a command of the CLI that holds the stack's lock: marked as ours, and removed if the CLI dies with it."""
        folder = self._backend.lock_folder(ref)
        told.at_first = partial(_mark, folder)
        try:
            await self._do(ref, program, config, act, told, what)
        except HermesError:
            remove_dead(folder, tell=partial(_warn, told.tell))
            raise

    async def _do(
        self,
        ref: StackRef,
        program: Program,
        config: StackConfig | None,
        act: Callable[["Stack"], None],
        told: CliEvents,
        what: str,
    ) -> None:
        from pulumi.automation import errors  # noqa: PLC0415  loads the SDK

        raised: list[Exception] = []

        def work() -> None:
            with self._workspace.opened(ref, _remembering(program, raised), config) as opened:
                act(opened)

        task = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Ctrl-C has reached the CLI as well; it ends its calls and saves, and we wait for that.
            await asyncio.wait({task})
            raise
        except errors.CommandError as error:
            ended: Exception = error_of(told, what, ref, str(error))
            if raised and not told.has_failures and not isinstance(ended, UnknownOutcomeError):
                ended = _raised_by_program(raised[0], told, what, ref)
            raise ended from error
        except (errors.InvalidVersionError, OSError) as error:
            raise UnavailableError(f"the pulumi CLI {self._command} cannot be used: {error}") from error


def _remembering(program: Program, raised: list[Exception]) -> Program:
    """The same program, which keeps what it raises: the CLI only hands on its text.

    What is raised inside an ``apply`` comes after the program has returned, and is the CLI's text in the end.
    """

    def remembered() -> Any:  # noqa: ANN401  whatever the program returns
        try:
            return program()
        except Exception as error:
            raised.append(error)
            raise

    return remembered


def _raised_by_program(error: Exception, told: CliEvents, what: str, ref: StackRef) -> Exception:
    return stopped(error, what, ref, done_by(told, what)) if isinstance(error, HermesError) else error


def _mark(folder: Folder) -> None:
    with contextlib.suppress(HermesError):  # without the mark the run is as good, and a death in it needs a person
        mark_child(folder)


def _warn(tell: Tell | None, text: str) -> None:
    if tell:
        tell(Progress("warning", message=text))


def _listed(targets: Collection[str]) -> list[str] | None:
    return sorted(targets) or None


def _nothing() -> None:
    """Stand in for a program where none runs."""


def refuse_unnamed(preview: Preview, may_destroy: MayDestroy) -> None:
    """Refuse when something would be destroyed that nobody named.

    Raises:
        RefusedError: Lists what would be destroyed and was not named.
    """
    unnamed = [
        change
        for change in preview.destructive
        if change.id and not change.type.startswith("pulumi:") and not may_destroy(change.urn)
    ]
    if unnamed:
        raise refusal([f"{change.name} ({change.type})" for change in unnamed])
