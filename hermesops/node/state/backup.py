"""``state``, ``backup`` and ``restore``: what an agent's state amounts to, a copy of it, and a copy put in its place.

Restoring looks first where a killed run has got to: a state that was being put in place is put in place before another
one comes.
"""

from pathlib import Path
from typing import Any

from hermesops.node.errors import RefusedError
from hermesops.node.instance import fencing_token, volume
from hermesops.node.instance.agent.installation import BACKUP_USER, Agent, account, agent_of, is_running
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.state.repository import MAX_BYTES, Repository
from hermesops.node.system.files import Access

_PRIVATE = Access(0o600)


def state(machine: Machine) -> dict[str, Any]:
    """Digest and size of the agent's state, whether it runs or not."""
    agent = agent_of(machine)
    volume.refuse_closed(machine)
    digest, used = machine.state.look(agent.home)
    return {
        "state": digest,
        "bytes": used,
        "size": machine.volumes.look(agent.home.path).size,
        "gateway": "running" if is_running(machine, agent) else "stopped",
    }


def backup(machine: Machine, path: Path, *, lease: FencingToken | None) -> dict[str, Any]:
    """Copy the agent's state, which may be running, into the repository that an uploaded file names.

    Raises:
        BadRequestError: The file is not that; it is gone all the same.
        OutrankedError: The lease was taken over.
        NotReadyError: The copy could not be made; there is no snapshot of it.
    """
    started = machine.system.monotonic()
    repository = Repository.from_json(machine.files.take(path, limit=MAX_BYTES))
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        volume.refuse_closed(machine)
        agent = agent_of(machine)
        settle(machine, agent)
        copied = machine.state.save(agent.home, repository, account(machine, BACKUP_USER))
    return {
        "snapshot": copied.snapshot,
        "bytes": copied.bytes,
        "added": copied.added,
        "left_out": copied.left_out,
        "seconds": round(machine.system.monotonic() - started, 3),
        "state": copied.state,
    }


def restore(machine: Machine, path: Path, *, lease: FencingToken | None) -> dict[str, Any]:
    """Put a copy in the place of the agent's state, while its gateway is stopped; what was there is kept beside it.

    Until the copy is whole and proved nothing of what is there is touched.

    Raises:
        BadRequestError: The uploaded file is not what it should be; it is gone all the same.
        OutrankedError: The lease was taken over.
        RefusedError: The gateway runs, or the copy is not whole.
        NotReadyError: The copy could not be fetched.
    """
    started = machine.system.monotonic()
    repository = Repository.from_json(machine.files.take(path, limit=MAX_BYTES))
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        volume.refuse_closed(machine)
        agent = agent_of(machine)
        _refuse_running(machine, agent)
        settle(machine, agent)
        copied = machine.state.fetch(agent.home, repository, account(machine, BACKUP_USER))
        # From here on no boot and no hand starts the gateway, until all of it is in place.
        machine.files.write_if_changed(machine.layout.restoring, b"", _PRIVATE)
        _refuse_started_meanwhile(machine, agent)
        machine.state.switch(agent.home)
        machine.remove(machine.layout.restoring)
    return {
        "snapshot": copied.snapshot,
        "bytes": copied.bytes,
        "seconds": round(machine.system.monotonic() - started, 3),
        "state": copied.state,
    }


def settle(machine: Machine, agent: Agent) -> None:
    """Bring a restore to its end that was cut short while it put a state in place; the caller holds the lock."""
    if is_cut_short(machine):
        machine.state.settle(agent.home)
        machine.remove(machine.layout.restoring)


def is_cut_short(machine: Machine) -> bool:
    """Whether a restore is half done; a change of release uses the same file, and is ended by ``going_back``."""
    return (
        machine.files.read(machine.layout.restoring) is not None
        and machine.files.read(machine.layout.activation) is None
    )


def _refuse_running(machine: Machine, agent: Agent) -> None:
    if is_running(machine, agent):
        raise RefusedError("the gateway runs: hermes-node fence, or systemctl stop, comes first")


def _refuse_started_meanwhile(machine: Machine, agent: Agent) -> None:
    try:
        _refuse_running(machine, agent)
    except RefusedError:
        machine.remove(machine.layout.restoring)
        raise
