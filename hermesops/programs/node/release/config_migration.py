"""Migrates the user's configuration to a newer schema, when a release writes one, and takes the older one back.

An agent starts with an older schema too, but does not migrate it; a command of its own does, without keeping a copy:
the caller has kept one. An agent of an older schema ignores what it does not know, and so settings that a migration
renamed: it gets the user's file as it was before, which is kept by schema (``node.state.user_config``).

Source: hermes-agent 0.19.0, ``_config_version`` in ``hermes_cli/config.py``; a file without it counts as 0.
"""

from pathlib import Path

from hermesops.programs.node.instance.agent.installation import Agent
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots import transient_unit
from hermesops.programs.node.release.slots.slot import record_of, schema_of, unit_of
from hermesops.programs.node.release.slots.transient_unit import migration_text
from hermesops.programs.node.state.snapshots import RestoreResult
from hermesops.programs.node.state.user_config import schema_in
from hermesops.programs.node.system import systemd
from hermesops.wire.errors import NotReadyError

SERVICE = "hermes-migration.service"
_CONFIG = "config.yaml"
_BYTES = 1 << 20


def is_due(machine: Machine, agent: Agent, release: str) -> bool:
    """Whether a release writes a newer schema than the user's file has; never without a file."""
    schema = _schema(machine, agent)
    return schema is not None and schema < schema_of(record_of(machine, release))


def is_newer(machine: Machine, agent: Agent, release: str) -> bool:
    """Whether the user's file has a newer schema than a release writes; never without a file, or of an unknown one."""
    return _is_newer_than(machine, agent, schema_of(record_of(machine, release)))


def take_back(machine: Machine, agent: Agent, release: str) -> RestoreResult:
    """Give a release the user's configuration in a schema that it reads, if one is kept; no gateway runs.

    Settings that the user changed since are migrated, or named. Does nothing when repeated. The newer file stays
    beside it.
    """
    if is_newer(machine, agent, release):
        return machine.state.take_config_back(agent.home, schema_of(record_of(machine, release)))
    return RestoreResult()


def preview(machine: Machine, agent: Agent, schema: int) -> RestoreResult:
    """The settings that ``take_back`` would migrate and lose now for a release; changes nothing, a gateway may run.

    Args:
        schema: The one that the release writes, which needs no slot for this; 0 for unknown.
    """
    if _is_newer_than(machine, agent, schema):
        return machine.state.preview_config(agent.home, schema)
    return RestoreResult()


def migrate(machine: Machine, agent: Agent, release: str) -> None:
    """Migrate the user's configuration to a release's schema; no gateway runs, and the caller has kept a copy.

    Raises:
        NotReadyError: The migration failed.
    """
    machine.state.keep_config(agent.home)
    machine.slots.migrate(agent.home, machine.layout.releases / release, unit_of(machine, release).decode())
    if is_due(machine, agent, release):
        raise NotReadyError(f"release {release} left the user's {_CONFIG} with schema {_schema(machine, agent)}")
    machine.state.keep_migrated_config(agent.home)


def end(machine: Machine) -> None:
    """Stop a migration that still runs."""
    machine.system.systemctl("stop", SERVICE, check=False)


def run(slot: Path, unit: str, *lines: str) -> None:
    """Run the release's own migration under its own unit, on a real machine.

    ``lines`` are added to the unit's ``[Service]``, as for the copy of a trial.

    Raises:
        NotReadyError: It failed, or took too long.
    """
    transient_unit.remove(SERVICE)  # what a killed run left
    try:
        transient_unit.install(SERVICE, migration_text(unit, slot, *lines))
        systemd.systemctl("start", SERVICE)
    finally:
        transient_unit.remove(SERVICE)


def _is_newer_than(machine: Machine, agent: Agent, written: int) -> bool:
    schema = _schema(machine, agent)
    return schema is not None and 0 < written < schema


def _schema(machine: Machine, agent: Agent) -> int | None:
    """The number in the user's file; ``None`` where there is no plain file."""
    try:
        with machine.files.opened_folder(agent.home.path) as folder:
            data = machine.files.tail(folder, _CONFIG, limit=_BYTES)
    except NotReadyError:
        return None
    return schema_in(data)
