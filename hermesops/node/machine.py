"""The machine around hermes-node: where things are on it, and the ways to see and change it.

Whatever decides gets a ``Machine`` and reaches the computer through nothing else, so that the same code also runs
where there is no computer: simulated machines keep theirs in memory. On a real one the ways are the modules ``files``
and ``system``.
"""

from dataclasses import dataclass, field
from pathlib import Path

from hermesops.node.layout import Layout
from hermesops.node.ports import AsksPlatform, Files, Gate, Keys, Slots, State, System, Volumes
from hermesops.node.state import adapter as real_state
from hermesops.node.system import files as real_files
from hermesops.node.system import firewall as real_gate
from hermesops.node.system import openssl as real_keys
from hermesops.node.system import platform_client as real_platform
from hermesops.node.system import systemd as real_system
from hermesops.node.system.data_volume import luks as real_volumes


@dataclass(frozen=True)
class Machine:
    """One machine.

    Attributes:
        layout: Where things are.
        files: Its files.
        system: What else there is of it.
        state: The agent's state.
        keys: Its own key.
        ask_platform: The way to the platform's service.
        volumes: What the state is on.
        slots: The releases on it, in the same place as the layout.
        gate: Who may reach the agent's API.
    """

    layout: Layout
    files: Files = real_files
    system: System = real_system
    state: State = real_state
    keys: Keys = real_keys
    ask_platform: AsksPlatform = real_platform.ask
    volumes: Volumes = real_volumes
    slots: Slots = field(kw_only=True)
    gate: Gate = real_gate

    def remove(self, path: Path) -> None:
        """Remove a file, if there is one.

        Raises:
            NotReadyError: Its folder does not exist, or is something else.
        """
        with self.files.opened_folder(path.parent) as folder:
            self.files.remove(folder, path.name)
