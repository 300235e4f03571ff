"""The machine that hermes-node works on: its paths, and the ports to observe and change it.

Deciding code gets a ``Machine`` and reaches the computer through nothing else, so the same code also runs on simulated
machines, which are in memory.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from hermesops.programs.node.ports import (
    AskOrders,
    AskPlatform,
    Files,
    Gate,
    InTime,
    Keys,
    Slots,
    Ssh,
    State,
    System,
    Volumes,
)
from hermesops.programs.node.system import data_volume as real_volumes
from hermesops.programs.node.system import files as real_files
from hermesops.programs.node.system import firewall as real_gate
from hermesops.programs.node.system import https, parallel
from hermesops.programs.node.system import openssl as real_keys
from hermesops.programs.node.system import sshd as real_ssh
from hermesops.programs.node.system import systemd as real_system
from hermesops.wire.layout import Layout


class _Later:
    """A part of a real machine that is imported when it is first used: imports are most of a start, and of its memory.

    ``node.__main__`` imports these parts at once: a change of release replaces the file that modules are read from.
    """

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the part has
        return getattr(self._make(), name)


_REAL_STATE = cast("State", _Later(lambda: import_module("hermesops.programs.node.state.adapter")))


@dataclass(frozen=True)
class Machine:
    """One machine, a real one unless parts are given.

    Attributes:
        slots: The releases on it, below the same root as the layout.
    """

    layout: Layout
    files: Files = real_files
    system: System = real_system
    state: State = _REAL_STATE
    keys: Keys = real_keys
    ask_platform: AskPlatform = https.ask_platform
    volumes: Volumes = real_volumes
    slots: Slots = field(kw_only=True)
    gate: Gate = real_gate
    ask_orders: AskOrders = https.ask_platform_once
    ssh: Ssh = real_ssh
    in_time: InTime = parallel.in_time

    def remove(self, path: Path) -> None:
        """Remove a file, if there is one.

        Raises:
            NotReadyError: Its folder does not exist, or is something else.
        """
        with self.files.opened_folder(path.parent) as folder:
            self.files.remove(folder, path.name)


def this_machine() -> Machine:
    """The machine that this process runs on, for commands that use few of its parts."""
    layout = Layout()
    slots = _Later(lambda: import_module("hermesops.programs.node.release.slots.disk").DiskSlots(layout))
    return Machine(layout, slots=cast("Slots", slots))
