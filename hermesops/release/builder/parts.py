"""What this installation of hermesops brings to every release, whichever agent it is for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from hermesops.node.protocol import VERSION

_WATCHDOG = "hermes_gateway_watchdog_seconds"


@dataclass(frozen=True)
class Unit:
    """The unit of the gateway: the template of role ``hermes_gateway`` with the role's own defaults.

    Attributes:
        template: Its text.
        defaults: What the role says where nobody says else.
    """

    template: str
    defaults: Mapping[str, Any]

    def render(self, *, notifies: bool) -> bytes:
        """The whole unit for an agent that speaks to systemd, or for one that does not.

        Source: Ansible's ``template`` module removes the line end after a block and keeps the last one.
        """
        values = {**self.defaults, _WATCHDOG: self.watchdog_s(notifies=notifies)}
        # Of units, not of pages: nothing is to be escaped.
        world = jinja2.Environment(undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True)  # noqa: S701
        return world.from_string(self.template).render(values).encode()

    def watchdog_s(self, *, notifies: bool) -> int:
        """Seconds of silence after which a gateway is started again; 0 where none is listened for."""
        return int(self.defaults[_WATCHDOG]) if notifies else 0


@dataclass(frozen=True)
class Parts:
    """What a release is made of beside the agent.

    Attributes:
        extras: Of the agent's package, with brackets: what it is installed with.
        site: Files that go beside the installed packages, by name.
        unit: The gateway's unit.
        program: Packs hermes-node.
        uv: Fetches the binary that installs the wheels; the argument is an empty folder to work in.
        skills: Packs the skills in one of the agent's source archives.
        source: Requirement, with hash, of a source archive whose skills serve an agent that comes as a bare wheel.
        protocol: What the node's language is called now.
    """

    extras: str
    site: Mapping[str, bytes]
    unit: Unit
    program: Callable[[], bytes]
    uv: Callable[[Path], bytes]
    skills: Callable[[Path], bytes]
    source: Path
    protocol: int = VERSION
