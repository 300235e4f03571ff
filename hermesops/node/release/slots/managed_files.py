"""What differs with the slot that runs, the unit and the managed files, and the same laid ready to go back.

Going back only renames what is laid here, so it works on a full disk.
"""

from collections.abc import Mapping
from pathlib import Path

from hermesops.node.instance import render, warm
from hermesops.node.instance.agent.installation import account
from hermesops.node.layout import UNIT
from hermesops.node.machine import Machine
from hermesops.node.protocol import Payload
from hermesops.node.release.slots.links import base_of, current
from hermesops.node.system.files import Access

_WORLD = Access(0o644)


def occupant(machine: Machine) -> Payload | None:
    """Whose agent runs here: a user's, a placeholder's, or none."""
    data = machine.files.read(machine.layout.payload)
    if data is not None and machine.files.read(machine.layout.identity) is not None:
        return Payload.from_json(data)
    return warm.held_placeholder(machine)


def unit_of(machine: Machine, release: str) -> bytes | None:
    """A slot's own unit; ``None`` for one that came with the roles, which have installed it themselves."""
    return machine.files.read(machine.layout.releases / release / UNIT)


def unit_under(machine: Machine, release: str) -> str:
    """The unit that a slot runs under: its own, else the roles'; empty where there is none."""
    return (unit_of(machine, release) or machine.files.read(machine.layout.unit(UNIT)) or b"").decode()


def adopt(machine: Machine) -> None:
    """Have the running slot hold its unit, as those do that hermes-node has made."""
    running = current(machine)
    installed = machine.files.read(machine.layout.unit(UNIT))
    if running and installed is not None and unit_of(machine, running) is None:
        machine.files.write_if_changed(machine.layout.releases / running / UNIT, installed, _WORLD)


def _places(machine: Machine) -> tuple[Path, Path, Path]:
    """Where the files are that differ: managed configuration, managed environment, unit."""
    return machine.layout.managed / "config.yaml", machine.layout.managed / ".env", machine.layout.unit(UNIT)


def _files(machine: Machine, release: str) -> Mapping[Path, tuple[bytes, Access]]:
    """What those files are with one slot."""
    files: dict[Path, tuple[bytes, Access]] = {}
    config, environment, service = _places(machine)
    base, payload = base_of(machine, release), occupant(machine)
    if payload is not None:
        shared = Access(0o640, 0, account(machine, base.user).gid)
        files[config] = (render.managed_config(base, payload), shared)
        files[environment] = (render.managed_environment(base, payload), shared)
    unit = unit_of(machine, release)
    if unit is not None:
        files[service] = (unit, _WORLD)
    return files


def stage_rollback_files(machine: Machine, release: str) -> None:
    """Have everything ready that a slot needs to run again; the link comes last."""
    for path, (data, access) in _files(machine, release).items():
        laid = machine.layout.rollback_file(path.name)
        machine.files.write_if_changed(laid, data, access)
    machine.slots.point(machine.layout.back.name, release)


def take_rollback_files(machine: Machine) -> None:
    """Put in place what was laid; does nothing twice."""
    for path in _places(machine):
        machine.slots.rename(machine.layout.rollback_file(path.name), path)
    machine.system.systemctl("daemon-reload")
    machine.slots.rename(machine.layout.back, machine.layout.current)


def clear_rollback_files(machine: Machine) -> None:
    """Nothing is gone back to any more."""
    for path in _places(machine):
        machine.remove(machine.layout.rollback_file(path.name))
    machine.remove(machine.layout.back)


def go_over(machine: Machine, release: str) -> None:
    """Put in place what a slot needs; no gateway runs. The link comes last."""
    for path, (data, access) in _files(machine, release).items():
        machine.files.write_if_changed(path, data, access)
    machine.system.systemctl("daemon-reload")
    machine.slots.point(machine.layout.current.name, release)
