"""The form of the user's configuration: which one their file has, and a release that writes a newer one.

An agent starts on an older form and does not move it; a command of its own does, which keeps no copy. So whoever calls
it has kept one.

Source: hermes-agent 0.19.0, ``_config_version`` in ``hermes_cli/config.py``; a file without it counts as 0.
"""

import re
from pathlib import Path

from hermesops.node import system
from hermesops.node.agent import Agent
from hermesops.node.errors import NotReadyError
from hermesops.node.laying import unit_of
from hermesops.node.layout import UNIT
from hermesops.node.machine import Machine
from hermesops.node.overlay import form_of, record_of
from hermesops.node.slot_unit import migration_text

SERVICE = "hermes-migration.service"
_UNITS = Path("/run/systemd/system")
_CONFIG = "config.yaml"
_BYTES = 1 << 20
_FORM = re.compile(rb"""^_config_version:\s*["']?(\d+)""", re.MULTILINE)


def is_due(machine: Machine, agent: Agent, release: str) -> bool:
    """Whether a release writes a newer form of the user's configuration than their file has; never without one."""
    held = _form(machine, agent)
    return held is not None and held < form_of(record_of(machine, release))


def migrate(machine: Machine, agent: Agent, release: str) -> None:
    """Bring the user's configuration to the form that a release writes; no gateway runs, and a copy is kept.

    Raises:
        NotReadyError: The release's agent could not.
    """
    unit = unit_of(machine, release) or machine.files.read(machine.layout.unit(UNIT)) or b""
    machine.slots.migrate(agent.home, machine.layout.releases / release, unit.decode())
    if is_due(machine, agent, release):
        raise NotReadyError(f"release {release} left the user's {_CONFIG} in form {_form(machine, agent)}")


def end(machine: Machine) -> None:
    """Have nobody write the user's configuration any more; safe where nobody does."""
    machine.system.systemctl("stop", SERVICE, check=False)


def run(slot: Path, unit: str, *lines: str) -> None:
    """On a real machine: the release's own command, under its own unit.

    Args:
        slot: Where the release is.
        unit: Its ``hermes-gateway.service``.
        lines: More of ``[Service]``, as for a copy of the state.

    Raises:
        NotReadyError: It failed, or took too long.
    """
    system.systemctl("stop", SERVICE, check=False)  # what a killed run left
    _UNITS.mkdir(parents=True, exist_ok=True)
    (_UNITS / SERVICE).write_text(migration_text(unit, slot, *lines), encoding="utf-8")
    try:
        system.systemctl("daemon-reload")
        system.systemctl("start", SERVICE)
    finally:
        system.systemctl("stop", SERVICE, check=False)
        (_UNITS / SERVICE).unlink(missing_ok=True)
        system.systemctl("daemon-reload", check=False)


def _form(machine: Machine, agent: Agent) -> int | None:
    """The number in the user's file; ``None`` where there is no plain file."""
    try:
        with machine.files.opened_folder(agent.home.path) as folder:
            data = machine.files.tail(folder, _CONFIG, limit=_BYTES)
    except NotReadyError:
        return None
    found = _FORM.search(data)
    return int(found[1]) if found else 0 if data else None
