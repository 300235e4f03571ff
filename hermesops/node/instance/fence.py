"""``fence`` and ``unfence``: a gateway that is stopped for good, reboots included, whoever asks systemd to start it.

The gateway's unit does not start while the fence's file exists. It goes away by ``unfence``, or when the machine is
personalised with a higher epoch: then the instance has come back to it.
"""

import json
from typing import Any

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.instance import fencing_token
from hermesops.node.instance.agent import gateway
from hermesops.node.instance.agent.installation import agent_of
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken, Identity, identity_from_json
from hermesops.node.system.files import Access

_PRIVATE = Access(0o600)

_PATIENCE_S = 20.0
"""Seconds that whoever changes the machine has to end before the gateway is stopped all the same."""


def fence(machine: Machine, *, lease: FencingToken | None) -> dict[str, Any]:
    """Stop the gateway, which finishes what it is at, and let nothing start it; the same again changes nothing."""
    try:
        with machine.files.locked(machine.layout.lock, limit_s=_PATIENCE_S):
            return _fence(machine, lease)
    except NotReadyError:  # whoever holds the lock may be waiting for this very gateway, and it for ever
        fencing_token.refuse_older(machine, lease)
        _take_down(machine)
    with machine.files.locked(machine.layout.lock):
        return _fence(machine, lease)


def _fence(machine: Machine, lease: FencingToken | None) -> dict[str, Any]:
    fencing_token.admit(machine, lease)
    _take_down(machine)
    return {"fenced": True}


def _take_down(machine: Machine) -> None:
    agent = agent_of(machine)
    # First: between a stop and a file written after it, a boot would start the gateway.
    machine.files.write_if_changed(machine.layout.fence, json.dumps({"epoch": _epoch(machine)}).encode(), _PRIVATE)
    if gateway.look(machine.system, agent.base.unit).is_running:
        machine.system.systemctl("stop", agent.base.unit)


def unfence(machine: Machine, *, lease: FencingToken | None) -> dict[str, Any]:
    """Let the gateway be started again; does not start it."""
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
        machine.remove(machine.layout.fence)
    return {"fenced": False}


def is_fenced(machine: Machine) -> bool:
    """Whether nothing starts this machine's gateway."""
    return machine.files.read(machine.layout.fence) is not None


def refuse(machine: Machine, wanted: Identity) -> None:
    """Refuse to personalise a fenced machine, unless its own instance comes back to it with a higher epoch.

    Raises:
        RefusedError: It stays fenced.
    """
    if is_fenced(machine) and not _comes_back(machine, wanted):
        raise RefusedError(
            f"this machine is fenced, and epoch {wanted.epoch} is not above its {_epoch(machine)}: hermes-node unfence"
        )


def lift(machine: Machine, wanted: Identity) -> None:
    """Take the fence away for an instance that comes back; the caller has refused everybody else."""
    if _comes_back(machine, wanted):
        machine.remove(machine.layout.fence)


def _comes_back(machine: Machine, wanted: Identity) -> bool:
    held = machine.files.read(machine.layout.identity)
    return (held is None or identity_from_json(held).instance == wanted.instance) and wanted.epoch > _epoch(machine)


def _epoch(machine: Machine) -> int:
    """The epoch that the fence is of."""
    kept = machine.files.read(machine.layout.fence)
    if kept:
        try:
            return int(json.loads(kept)["epoch"])
        except (ValueError, TypeError, KeyError):
            pass  # an old or broken file fences all the same
    held = machine.files.read(machine.layout.identity)
    return identity_from_json(held).epoch if held else 0
