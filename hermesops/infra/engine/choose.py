"""Chooses the engine: the pulumi CLI if it is installed, the embedded one where that is allowed."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from hermesops.errors import UsageError
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import EngineConfig, pulumi_home


def make_engine(kind: str, config: EngineConfig, *, production: bool) -> Engine:
    """Make the engine that the settings name; starts no process and reads no secret.

    ``kind`` is ``cli``, ``embedded``, or ``auto``: the CLI if it is installed, else the embedded one, which ``auto``
    never takes in ``production``.

    Raises:
        UsageError: There is no CLI and the embedded engine must not or shall not stand in for it.
    """
    command = find_cli(config.environment)
    if kind == "embedded" or (kind == "auto" and command is None and not production):
        from hermesops.infra.engine.embedded.engine import EmbeddedEngine  # noqa: PLC0415  only one engine is loaded

        return EmbeddedEngine(config)
    if command is None:
        why = "production does not use the embedded engine unless it is asked for" if production else "it was asked for"
        raise UsageError(
            f"there is no pulumi CLI on PATH or in ~/.pulumi ({why})",
            hint="install it (https://www.pulumi.com/docs/install/), or set HERMESOPS_PULUMI_ENGINE=embedded",
        )
    from hermesops.infra.engine.cli import CliEngine  # noqa: PLC0415  as above

    return CliEngine(command, config)


def find_cli(environment: Mapping[str, str]) -> Path | None:
    """Find the pulumi CLI: on the search path, in Pulumi's home, or where the SDK's installer puts it."""
    path = shutil.which("pulumi", path=environment.get("PATH", ""))
    if path is not None:
        return Path(path)
    home = pulumi_home(environment)
    places = [home / "bin" / "pulumi", *sorted(home.glob("versions/*/bin/pulumi"), reverse=True)]
    return next((place for place in places if place.is_file()), None)
