"""``state``, ``backup`` and ``restore``: the digest of an agent's state, a copy of it, and its replacement by a copy.

A restore first finishes an earlier one that was killed during the replacement.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from hermesops.programs.node.instance import fencing, volume
from hermesops.programs.node.instance.agent.installation import BACKUP_USER, Agent, account, agent_of, is_running
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.programs.node.system.restic import MAX_REPOSITORY_BYTES, Repository
from hermesops.wire.errors import NodeError, RefusedError
from hermesops.wire.protocol import FencingToken, identity_from_json


def state(machine: Machine) -> dict[str, Any]:
    """Digest and size of the agent's state, whether its gateway runs or not; and the restored copy, while unchanged."""
    agent = agent_of(machine)
    volume.refuse_closed(machine)
    digest, used = machine.state.observe(agent.home)
    return {
        "state": digest,
        "bytes": used,
        "size": machine.volumes.observe(agent.home.path).size,
        "gateway": "running" if is_running(machine, agent) else "stopped",
        "restored": fencing.restored(machine),
    }


def backup(machine: Machine, path: Path, *, lease: FencingToken | None) -> dict[str, Any]:
    """Copy the state of an agent, which may be running, into the repository that an uploaded file names.

    Raises:
        BadRequestError: The file is malformed; it is gone all the same.
        OutrankedError: The lease was taken over.
        NotReadyError: The copy could not be made; there is no snapshot of it.
    """
    started = machine.system.monotonic()
    repository = Repository.from_json(machine.files.take(path, limit=MAX_REPOSITORY_BYTES))
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        volume.refuse_closed(machine)
        agent = agent_of(machine)
        settle(machine, agent)
        copied = machine.state.save(agent.home, repository, account(machine, BACKUP_USER))
        _remember(machine)
    return {
        "snapshot": copied.snapshot,
        "bytes": copied.bytes,
        "added": copied.added,
        "left_out": copied.left_out,
        "seconds": round(machine.system.monotonic() - started, 3),
        "state": copied.state,
    }


def _remember(machine: Machine) -> None:
    """Store the time of the last backup for ``metrics``; a full disk does not make the backup fail."""
    identity = machine.files.read(machine.layout.identity)
    if identity is not None:
        record = {"instance": identity_from_json(identity).instance, "at": machine.system.now()}
        with suppress(OSError):
            machine.files.write_if_changed(machine.layout.last_backup, json.dumps(record).encode(), PRIVATE)


def restore(machine: Machine, path: Path, *, lease: FencingToken | None) -> dict[str, Any]:
    """Replace the agent's state by a copy, while its gateway is stopped; the replaced state is kept beside it.

    The present state is not touched before the copy is complete and checked.

    Raises:
        BadRequestError: The uploaded file is malformed; it is gone all the same.
        OutrankedError: The lease was taken over.
        RefusedError: The gateway runs, or the copy is incomplete.
        NotReadyError: The copy could not be fetched.
    """
    started = machine.system.monotonic()
    repository = Repository.from_json(machine.files.take(path, limit=MAX_REPOSITORY_BYTES))
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
        volume.refuse_closed(machine)
        agent = agent_of(machine)
        _refuse_running(machine, agent)
        settle(machine, agent)
        copied = machine.state.fetch(agent.home, repository, account(machine, BACKUP_USER))
        # From here on nothing starts the gateway, no boot either, until all of the state is in place.
        machine.files.write_if_changed(machine.layout.restoring, b"", PRIVATE)
        try:
            _refuse_running(machine, agent)  # it may have been started meanwhile
        except RefusedError:
            machine.remove(machine.layout.restoring)
            raise
        machine.state.switch(agent.home)
        fencing.note_restored(machine, copied.snapshot)
        note_replaced(machine)
        machine.remove(machine.layout.restoring)
    return {
        "snapshot": copied.snapshot,
        "bytes": copied.bytes,
        "seconds": round(machine.system.monotonic() - started, 3),
        "state": copied.state,
    }


def settle(machine: Machine, agent: Agent) -> None:
    """Finish a restore that was killed during the replacement; the caller holds the lock."""
    if is_interrupted(machine):
        machine.state.settle(agent.home)
        note_replaced(machine)
        machine.remove(machine.layout.restoring)


def note_replaced(machine: Machine) -> None:
    """Store that a copy replaced the state: ``metrics`` counts damage from then on. A failed write fails nothing."""
    with suppress(OSError, NodeError):
        record = json.dumps({"at": machine.system.now()})
        machine.files.write_if_changed(machine.layout.state_replaced, record.encode(), PRIVATE)


def is_interrupted(machine: Machine) -> bool:
    """Whether a restore is half done. A change of release uses the same file, and a rollback ends it."""
    return (
        machine.files.read(machine.layout.restoring) is not None
        and machine.files.read(machine.layout.activation) is None
    )


def _refuse_running(machine: Machine, agent: Agent) -> None:
    if is_running(machine, agent):
        raise RefusedError("the gateway runs: stop it first with hermes-node fence or systemctl stop")
