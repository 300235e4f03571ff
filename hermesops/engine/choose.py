"""Which engine runs: the pulumi CLI where there is one, the embedded one where that is allowed."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hermesops.engine.interface import Engine
from hermesops.errors import UsageError
from hermesops.model.stack import StackRef
from hermesops.private_file import read_secret

PARALLEL = 16
"""Steps at once; a step mostly waits for the vendor."""


def make_engine(
    kind: str,
    *,
    production: bool,
    backend: str | Path,
    passphrase: Callable[[], str],
    plugin_environment: Mapping[str, str],
    plugin_folders: Sequence[Path] | None = None,
    parallel: int = PARALLEL,
    token_of: Callable[[StackRef], tuple[int, int] | None] = lambda _: None,
) -> Engine:
    """Make the engine that the settings ask for; starts no process and reads no secret.

    Args:
        kind: ``cli``, ``embedded``, or ``auto``: the CLI where it is installed, else the embedded one, which
            production never takes by itself.
        production: Whether what is run belongs to users.
        backend: Folder or URL of Pulumi's file backend; both engines keep the same files there.
        passphrase: Asked for only when a secret of the state is read or written.
        plugin_environment: The whole environment of the engine's and the plugins' processes.
        plugin_folders: Where plugins are looked for before ``PATH``; None means beside this Python.
        parallel: How many steps at once.
        token_of: Epoch and counter of the lease under which a stack is changed; ``None`` where there is none.

    Raises:
        UsageError: There is no CLI and the embedded engine must not or shall not stand in for it.
    """
    command = find_cli(plugin_environment)
    if kind == "embedded" or (kind == "auto" and command is None and not production):
        from hermesops.engine.embedded.engine import EmbeddedEngine  # noqa: PLC0415  only one engine is loaded

        return EmbeddedEngine(
            backend,
            passphrase=passphrase,
            environment=plugin_environment,
            plugin_folders=plugin_folders,
            parallel=parallel,
            token_of=token_of,
        )
    if command is None:
        why = "production does not use the embedded engine unless it is asked for" if production else "it was asked for"
        raise UsageError(
            f"there is no pulumi CLI on PATH or in ~/.pulumi ({why})",
            hint="install it (https://www.pulumi.com/docs/install/), or set HERMESOPS_PULUMI_ENGINE=embedded",
        )
    from hermesops.engine.cli import CliEngine  # noqa: PLC0415  as above

    return CliEngine(
        command,
        backend,
        passphrase=passphrase,
        environment=plugin_environment,
        plugin_folders=plugin_folders,
        parallel=parallel,
        token_of=token_of,
    )


def find_cli(environment: Mapping[str, str]) -> Path | None:
    """Find the pulumi CLI: on the search path, in Pulumi's home, or where the SDK's installer puts it."""
    found = shutil.which("pulumi", path=environment.get("PATH", ""))
    if found is not None:
        return Path(found)
    home = pulumi_home(environment)
    places = [home / "bin" / "pulumi", *sorted(home.glob("versions/*/bin/pulumi"), reverse=True)]
    return next((place for place in places if place.is_file()), None)


def pulumi_home(environment: Mapping[str, str]) -> Path:
    """The folder in which the pulumi CLI keeps what is its own."""
    return Path(environment.get("PULUMI_HOME") or Path(environment.get("HOME", "/nonexistent")) / ".pulumi")


def read_passphrase(file: Path) -> str:
    """Read the passphrase of the state's secrets.

    Raises:
        RefusedError: The file is missing, empty, or readable by others.
    """
    return read_secret(file, what="passphrase of Pulumi's state")
