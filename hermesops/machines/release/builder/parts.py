"""Parts of a release: the agent, read from its wheel without running it, and this installation's additions."""

import io
import re
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

import jinja2

from hermesops.errors import RefusedError
from hermesops.machines.release.builder.sqlite import SqliteBuilder
from hermesops.wire.protocol import VERSION

_WATCHDOG = "hermes_gateway_watchdog_seconds"
_RESOURCES = "hermes_gateway_resources"


@dataclass(frozen=True)
class Unit:
    """The unit of the gateway: the template of role ``hermes_gateway`` with the role's own defaults."""

    template: str
    defaults: Mapping[str, Any]

    def render(self, *, notifies: bool, resources: Mapping[str, str] | None = None) -> bytes:
        """The whole unit, for an agent that notifies systemd or for one that does not.

        ``resources`` are folders that the release brings, by the variable that names them.

        Source: Ansible's ``template`` module removes the line end after a block and keeps the last one.
        """
        own = {_WATCHDOG: self.watchdog_s(notifies=notifies), _RESOURCES: dict(resources or {})}
        values = {**self.defaults, **own}
        # Units, not web pages: nothing is escaped.
        templates = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)  # noqa: S701
        return templates.from_string(self.template).render(values).encode()

    def watchdog_s(self, *, notifies: bool) -> int:
        """Seconds of silence after which systemd restarts a gateway; 0 for an agent that does not notify."""
        return int(self.defaults[_WATCHDOG]) if notifies else 0


@dataclass(frozen=True)
class Parts:
    """Parts of a release beside the agent.

    Attributes:
        extras: Extras of the agent's package, in brackets.
        site: Files that go beside the installed packages, by name.
        program: Packs hermes-node.
        uv: Fetches the binary that installs the wheels; gets an empty folder to work in.
        skills: Packs the skills in one of the agent's source archives.
        source: Requirement, with hash, of a source archive whose skills serve an agent that comes as a bare wheel.
        sqlite: Builds the SQLite that the agent and hermes-node use.
    """

    extras: str
    site: Mapping[str, bytes]
    unit: Unit
    program: Callable[[], bytes]
    uv: Callable[[Path], bytes]
    skills: Callable[[Path], bytes]
    source: Path
    sqlite: SqliteBuilder
    protocol: int = VERSION


PACKAGE = "hermes-agent"

_CONFIG, _DEFAULTS = "hermes_cli/config.py", "hermes_cli/config_defaults.py"
_GATEWAY = "gateway/config.py"
_SCHEMA = re.compile(rb'^ {4}"_config_version": (\d+),', re.MULTILINE)
_NOTIFIES = b"systemd_watchdog_seconds"


@dataclass(frozen=True)
class Agent:
    """One version of the agent.

    Attributes:
        config_schema: ``_config_version`` of the user's file as it writes it.
        notifies: Whether it tells systemd that it is ready and alive.
        pythons: The versions of Python that it is for, as its wheel says.
    """

    version: str
    config_schema: int
    notifies: bool
    pythons: str = ""


def read_agent(wheel: str, content: bytes) -> Agent:
    """Read version and configuration schema of the agent from its wheel.

    Raises:
        RefusedError: It is damaged, not the agent's, or does not say which configuration it writes.

    Source:
        hermes-agent 0.18.2 and 0.19.0: ``DEFAULT_CONFIG["_config_version"]`` in ``hermes_cli/config.py``, in a third
        party's build of September 2026 in ``hermes_cli/config_defaults.py``;
        ``gateway.systemd_watchdog_seconds`` came with 0.19.0, and before that nothing spoke to systemd.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if broken := archive.testzip():
                raise RefusedError(f"{wheel}: {broken} in it is damaged", hint="fetch the wheel again")
            about = _about(wheel, archive)
            config, gateway = archive.read(_CONFIG), archive.read(_GATEWAY)
            if _DEFAULTS in archive.namelist():
                config = archive.read(_DEFAULTS)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise RefusedError(f"{wheel} is no whole wheel: {error}", hint="fetch the wheel again") from error
    except KeyError as error:
        raise RefusedError(f"{wheel} is no wheel of the agent: {error}", hint="name a wheel of hermes-agent") from error
    schema = _SCHEMA.search(config)
    if schema is None:
        raise RefusedError(
            f"{wheel} does not name its configuration version: no _config_version in {_CONFIG}",
            hint=f"hermesops reads it there and in {_DEFAULTS}; another layout needs a newer hermesops",
        )
    return Agent(about["Version"], int(schema[1]), _NOTIFIES in gateway, about.get("Requires-Python", ""))


def _about(wheel: str, archive: zipfile.ZipFile) -> dict[str, str]:
    name = next((name for name in archive.namelist() if name.endswith(".dist-info/METADATA")), None)
    about = HeaderParser().parsestr(archive.read(name).decode() if name else "")
    if about["Name"] != PACKAGE or not about["Version"]:
        raise RefusedError(f"{wheel} is a wheel of {about['Name'] or 'nothing'}, not of {PACKAGE}")
    return dict(about.items())
