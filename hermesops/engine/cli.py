"""The engine that is the pulumi CLI, driven through the Automation API.

The program runs in this process; the CLI does the rest. Its events are translated here and nowhere else.
"""

import asyncio
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hermesops.engine.cli_events import Told, changes_of, error_of
from hermesops.engine.embedded.store import FileBackend
from hermesops.engine.interface import MayDestroy, Program, StackConfig, Tell
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.stack import Preview, StackRef, UpResult

if TYPE_CHECKING:
    from pulumi.automation import Stack

PROJECT_FILE = "name: {project}\nruntime: python\n"


class CliEngine:
    """Runs Pulumi programs by the pulumi CLI.

    Args:
        command: The CLI's executable.
        folder: The file backend's folder.
        passphrase: Asked for before every command of the CLI that opens a stack, which always wants it.
        environment: The environment of the CLI and, through it, of the plugins.
        plugin_folders: Put before ``PATH``; None means beside this Python.
        parallel: How many steps at once.
    """

    name = "cli"

    def __init__(
        self,
        command: Path,
        folder: Path,
        *,
        passphrase: Callable[[], str],
        environment: Mapping[str, str],
        plugin_folders: Sequence[Path] | None = None,
        parallel: int = 16,
    ) -> None:
        self._command = command
        self._backend = FileBackend(folder)
        self._folder = folder
        self._passphrase = passphrase
        self._environment = dict(environment)
        self._plugin_folders = (Path(sys.executable).parent,) if plugin_folders is None else tuple(plugin_folders)
        self._parallel = parallel

    async def preview(
        self, stack: StackRef, program: Program, *, config: StackConfig | None = None, tell: Tell | None = None
    ) -> Preview:
        """Find out what ``up`` would change; see Engine."""
        told = Told(tell)

        def act(opened: "Stack") -> None:
            opened.preview(parallel=self._parallel, on_event=told.hear)

        await self._do(stack, program, config, act, told, "preview")
        return Preview(stack, changes_of(told))

    async def preview_destroy(self, stack: StackRef, *, tell: Tell | None = None) -> Preview:
        """Find out what ``destroy`` would delete; see Engine."""
        self._backend.existing(stack)
        told = Told(tell)

        def act(opened: "Stack") -> None:
            opened.preview_destroy(parallel=self._parallel, on_event=told.hear)

        await self._do(stack, _nothing, None, act, told, "preview of destroy")
        return Preview(stack, changes_of(told))

    async def up(
        self,
        stack: StackRef,
        program: Program,
        *,
        may_destroy: MayDestroy | None = None,
        config: StackConfig | None = None,
        tell: Tell | None = None,
    ) -> UpResult:
        """Make the world as the program says; see Engine."""
        self._refuse_unresolved(stack)
        if may_destroy is not None:
            refuse_unnamed(await self.preview(stack, program, config=config), may_destroy)
        told = Told(tell)

        def act(opened: "Stack") -> None:
            opened.up(parallel=self._parallel, on_event=told.hear, show_secrets=False)

        await self._do(stack, program, config, act, told, "up")
        return UpResult(stack, changes_of(told), await self.outputs(stack))

    async def destroy(
        self, stack: StackRef, *, may_destroy: MayDestroy | None = None, tell: Tell | None = None
    ) -> UpResult:
        """Delete everything in a stack; see Engine."""
        self._backend.existing(stack)
        self._refuse_unresolved(stack)
        if may_destroy is not None:
            refuse_unnamed(await self.preview_destroy(stack), may_destroy)
        told = Told(tell)

        def act(opened: "Stack") -> None:
            opened.destroy(parallel=self._parallel, on_event=told.hear, show_secrets=False)

        await self._do(stack, _nothing, None, act, told, "destroy")
        return UpResult(stack, changes_of(told))

    async def outputs(self, stack: StackRef, *, show_secrets: bool = False) -> Mapping[str, Any]:
        """Read a stack's outputs; see Engine. The files are the same, so the embedded engine's reader reads them."""
        from hermesops.engine.embedded.engine import EmbeddedEngine  # noqa: PLC0415  loaded only here

        reader = EmbeddedEngine(self._folder, passphrase=self._passphrase, environment={})
        return await reader.outputs(stack, show_secrets=show_secrets)

    async def export(self, stack: StackRef) -> dict[str, Any]:
        """Read a stack's state from its file.

        The Automation API's export would write every secret in the clear.
        """
        return {"version": 3, "deployment": self._backend.existing(stack)}

    async def stacks(self, project: str) -> list[StackRef]:
        """List the stacks of a project; see Engine."""
        return self._backend.stacks(project)

    def _refuse_unresolved(self, stack: StackRef) -> None:
        """The CLI repeats an interrupted create and keeps its mark for ever, so a person has to look first."""
        pending = (self._backend.read(stack) or {}).get("pending_operations") or []
        stuck = [op["resource"]["urn"] for op in pending if op["type"] == "creating" and op["resource"].get("custom")]
        if stuck:
            names = ", ".join(urn.rpartition("::")[2] for urn in stuck)
            raise RefusedError(
                f"an interrupted run began to create {names} and it is not known whether they exist",
                hint=f"look for them, then run `pulumi refresh --clear-pending-creates --stack {stack.stack}`",
            )

    async def _do(
        self,
        ref: StackRef,
        program: Program,
        config: StackConfig | None,
        act: Callable[["Stack"], None],
        told: Told,
        what: str,
    ) -> None:
        from pulumi.automation import errors  # noqa: PLC0415  loads the SDK

        def work() -> None:
            with tempfile.TemporaryDirectory(prefix="hermesops-pulumi-") as folder:
                act(self._opened(Path(folder), ref, program, config))

        task = asyncio.get_running_loop().run_in_executor(None, work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            # Ctrl-C has reached the CLI as well; it ends its calls and saves, and we wait for that.
            await asyncio.wait({task})
            raise
        except errors.CommandError as error:
            raise error_of(told, what, ref, str(error)) from error
        except (errors.InvalidVersionError, OSError) as error:
            raise UnavailableError(f"the pulumi CLI {self._command} cannot be used: {error}") from error

    def _opened(self, work: Path, ref: StackRef, program: Program, config: StackConfig | None) -> "Stack":
        from pulumi import automation  # noqa: PLC0415  loads the SDK

        self._folder.mkdir(parents=True, exist_ok=True)
        (work / "Pulumi.yaml").write_text(PROJECT_FILE.format(project=ref.project))
        salt = self._salt(ref)
        if salt:  # without it the CLI would invent a new one and encrypt everything anew
            (work / f"Pulumi.{ref.stack}.yaml").write_text(f"encryptionsalt: {salt}\n")
        workspace = automation.LocalWorkspace(
            work_dir=str(work),
            program=program,
            pulumi_command=self._cli(work),
            env_vars=self._variables(),
        )
        opened = automation.Stack.create_or_select(ref.stack, workspace)
        for key, value in (config.values if config else {}).items():
            secret = bool(config and key in config.secret)
            opened.set_config(key, automation.ConfigValue(value, secret))
        return opened

    def _cli(self, work: Path) -> Any:  # noqa: ANN401  the SDK's type needs the SDK
        from pulumi.automation import PulumiCommand  # noqa: PLC0415  loads the SDK

        # The SDK only takes a root with bin/pulumi in it, and a CLI from PATH may be a lone file.
        if self._command.parent.name == "bin":
            return PulumiCommand(root=str(self._command.parent.parent))
        (work / "cli" / "bin").mkdir(parents=True)
        (work / "cli" / "bin" / "pulumi").symlink_to(self._command)
        return PulumiCommand(root=str(work / "cli"))

    def _salt(self, ref: StackRef) -> str:
        providers = (self._backend.read(ref) or {}).get("secrets_providers") or {}
        return str((providers.get("state") or {}).get("salt", ""))

    def _variables(self) -> dict[str, str]:
        search = [*map(str, self._plugin_folders), self._environment.get("PATH", "")]
        return {
            **self._environment,
            "PATH": ":".join(part for part in search if part),
            "PULUMI_BACKEND_URL": f"file://{self._folder}",
            "PULUMI_CONFIG_PASSPHRASE": self._passphrase(),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
        }


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
        names = ", ".join(f"{change.name} ({change.type})" for change in unnamed)
        raise RefusedError(
            f"{len(unnamed)} resource(s) would be destroyed that nobody named: {names}",
            hint="look at the preview; name each one that really is to go, or put it back into what is wanted",
        )
