"""``sqlite``: the SQLite that the running gateway has loaded, and the one that hermes-node opens databases with.

The kernel says which file the gateway has mapped. It is never loaded to ask it: whatever an agent maps is the agent's.
A file of a slot is known by its hash in the release's lock, and the distribution's by being this program's own. A
release's own Python that has its SQLite linked in maps none: its signed lock says which.
"""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.instance.agent.installation import agent_of
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots import slot
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.wire import sha256

Mapped = Callable[[int, str], frozenset[str]]
"""Paths of files that a process has mapped, by the beginning of their names: ``system.mapped_files.named``."""

_LIBRARY, _PYTHON = "libsqlite3", "python3."
_NAME = re.compile(r"libsqlite3-(3\.\d{1,3}\.\d{1,3})-x86_64\.so", re.ASCII)


def show(machine: Machine, mapped: Mapped, version_for: Callable[[AgentHome], str]) -> dict[str, Any]:
    """Path and version of the gateway's SQLite, empty where they are unknown, and hermes-node's version."""
    agent = agent_of(machine)
    pid = int(gateway.observe(machine.system, agent.base.unit).properties.get("MainPID") or 0)
    paths = sorted(mapped(pid, _LIBRARY)) if pid else []
    version = _version(machine, paths[0], mapped) if len(paths) == 1 else ""
    if pid and not paths:
        paths, version = _linked(machine, mapped(pid, _PYTHON))
    return {"pid": pid, "path": ", ".join(paths)[:1000], "version": version, "node": version_for(agent.home)}


def _version(machine: Machine, path: str, mapped: Mapped) -> str:
    file = Path(path)
    if match := _NAME.fullmatch(file.name):
        return match[1] if _is_signed(machine, file) else ""
    import sqlite3  # noqa: PLC0415 - the distribution's, which nothing else here needs

    return sqlite3.sqlite_version if {path} == mapped(os.getpid(), _LIBRARY) else ""


def _linked(machine: Machine, programs: frozenset[str]) -> tuple[list[str], str]:
    """Program and version of a SQLite that is linked into the Python of a slot; empty for another program."""
    for program in sorted(programs):
        file = Path(program)
        if not file.is_relative_to(machine.layout.releases):
            continue
        name = file.relative_to(machine.layout.releases).parts[0]
        record = slot.record_of(machine, name)
        interpreter = json.loads(record["lock"]).get("interpreter", {}) if record else {}
        if file.is_relative_to(machine.layout.releases / name / "python") and "sqlite" in interpreter:
            return [program], str(interpreter["sqlite"])
    return [], ""


def _is_signed(machine: Machine, file: Path) -> bool:
    """Whether a file of a slot has the bytes that its release's lock names."""
    releases = machine.layout.releases
    if not file.is_relative_to(releases):
        return False
    record = slot.record_of(machine, file.relative_to(releases).parts[0])
    data = file.read_bytes() if record and file.is_file() else None
    site = json.loads(record["lock"])["site"] if record else []
    known = {blob["name"]: blob["sha256"] for blob in site}
    return data is not None and known.get(file.name) == sha256.hexdigest(data)
