"""Working folder, environment and salt for one command of the pulumi CLI."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.errors import RefusedError
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.engine.options import EngineConfig, Program, StackConfig, pulumi_home, read_passphrase
from hermesops.model.stack import StackRef

if TYPE_CHECKING:
    from pulumi.automation import Stack

PROJECT_FILE = "name: {project}\nruntime: python\n"
SALT = "encryptionsalt:"


class Workspace:
    """Opens stacks for the CLI, each command in a folder of its own."""

    def __init__(self, command: Path, backend: FileBackend, config: EngineConfig) -> None:
        self._command = command
        self._backend = backend
        self._config = config

    @contextlib.contextmanager
    def opened(self, ref: StackRef, program: Program, config: StackConfig) -> "Iterator[Stack]":
        """Make a stack ready for one command; it is made when it is not there yet. Nothing of it stays behind."""
        with tempfile.TemporaryDirectory(prefix="hermesops-pulumi-") as folder:
            work = Path(folder).resolve()
            try:
                yield self._open(work, ref, program, config)
            finally:
                self._selection(work, ref).unlink(missing_ok=True)

    def _selection(self, work: Path, ref: StackRef) -> Path:
        """Return the file in which the CLI notes the selected stack of a folder, for ever.

        Source: pulumi 3.259.0, pkg/workspace/workspace.go, ``settingsPath``.
        """
        folder = hashlib.sha1(str(work / "Pulumi.yaml").encode(), usedforsecurity=False).hexdigest()
        return pulumi_home(self._config.environment) / "workspaces" / f"{ref.project}-{folder}-workspace.json"

    def _open(self, work: Path, ref: StackRef, program: Program, config: StackConfig) -> "Stack":
        from pulumi import automation  # noqa: PLC0415  loads the SDK

        from hermesops.infra.engine.cli_command import CleanCommand  # noqa: PLC0415  as above

        variables = self._variables()
        self._backend.storage.make()
        (work / "Pulumi.yaml").write_text(PROJECT_FILE.format(project=ref.project))
        salt = salt_of(self._backend, ref)
        if salt:  # without it the CLI would make a new one and encrypt everything again
            _settings_file(work, ref).write_text(f"{SALT} {salt}\n")
        workspace = automation.LocalWorkspace(
            work_dir=str(work),
            program=program,
            pulumi_command=CleanCommand(self._command, variables),
            env_vars=variables,
        )
        opened = automation.Stack.create_or_select(ref.stack, workspace)
        for key, value in config.values.items():
            opened.set_config(key, automation.ConfigValue(value, key in config.secret))
        return opened

    def _variables(self) -> dict[str, str]:
        environment = self._config.environment
        search = [*map(str, self._config.plugin_folders), environment.get("PATH", "")]
        return {
            **environment,
            "PATH": ":".join(part for part in search if part),
            "PULUMI_BACKEND_URL": self._backend.url,
            "PULUMI_CONFIG_PASSPHRASE": self._config.passphrase(),
            "PULUMI_SKIP_UPDATE_CHECK": "true",
            "PULUMI_DISABLE_AUTOMATIC_PLUGIN_ACQUISITION": "true",
            "PULUMI_DISABLE_REGISTRY_RESOLVE": "true",
        }


def refuse_other_seal(backend: str | Path, ref: StackRef, folder: Path, environment: Mapping[str, str]) -> None:
    """Return if a run of the CLI by hand keeps the seal of the stack's state: its salt and its passphrase.

    Where the stack's settings hold no salt, the CLI makes one for whatever passphrase it is given, writes it there
    before the program runs, and seals the whole state anew with it (recorded: passphrase, steps 17 and 18). Where it
    takes the salt from the state, it asks whether the passphrase is right only when it meets a secret.
    Source: pulumi 3.259.0, pkg/cmd/pulumi/stack/secrets.go and pkg/secrets/passphrase/manager.go.

    ``folder`` is where the stack's project is, ``environment`` the CLI's.

    Raises:
        RefusedError: The settings hold another salt, or the passphrase is another.
        UsageError: The passphrase's file cannot be read.
    """
    file, salt = _settings_file(folder, ref), salt_of(FileBackend(backend), ref)
    if not salt:
        return
    if _salt_in(file) not in {"", salt}:
        raise RefusedError(
            f"{file} has another salt than the state of stack {ref.stack}, which this run would seal anew",
            hint=f"remove {file.name}, and set PULUMI_FALLBACK_TO_STATE_SECRETS_MANAGER=true: "
            "then the salt is taken from the state",
        )
    passphrase = _passphrase_in(environment)
    if passphrase is not None:
        PassphraseVault(lambda: passphrase, salt=salt, keys={}, stack=ref.stack).unlock()


def _salt_in(file: Path) -> str:
    lines = file.read_text().splitlines() if file.is_file() else []
    return next((line.removeprefix(SALT).strip().strip("\"'") for line in lines if line.startswith(SALT)), "")


def _passphrase_in(environment: Mapping[str, str]) -> str | None:
    """The passphrase that the CLI uses; None if it prompts for one."""
    text, file = (environment.get(f"PULUMI_CONFIG_PASSPHRASE{ending}") for ending in ("", "_FILE"))
    return text if text is not None or not file else read_passphrase(Path(file))


def salt_of(backend: FileBackend, ref: StackRef) -> str:
    """The salt line of a stack's state; empty where it has none."""
    providers = (backend.read(ref) or {}).get("secrets_providers") or {}
    return str((providers.get("state") or {}).get("salt", ""))


def _settings_file(folder: Path, ref: StackRef) -> Path:
    return folder / f"Pulumi.{ref.stack}.yaml"
