"""Fencing: stale leases are refused, and ``fence`` stops a gateway permanently, also across reboots and manual starts.

A machine is changed under a lease. The holder of a lease that was taken over may not know it yet; the machine does, by
the highest fencing token that it has seen. The gateway's unit does not start while the fence's file exists. That is
removed by ``unfence``, or when the machine is personalised with a higher epoch: then the instance has come back to it.
"""

import json
from dataclasses import asdict
from typing import Any

from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.instance.agent.installation import agent_of
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire.errors import NodeError, NotReadyError, OutrankedError, RefusedError
from hermesops.wire.protocol import FencingToken, Identity, identity_from_json

_WAIT_S = 20.0
"""Seconds that the holder of the machine's lock has to end before the gateway is stopped all the same."""


def admit(machine: Machine, token: FencingToken | None, *, replaces: bool = False) -> None:
    """Refuse a change under a lease older than the newest one seen by this machine; store a newer one.

    The caller holds the machine's lock and has made sure that the machine is the caller's to change. No token comes
    from a hermesops of before tokens, which node protocol 1 admits. ``replaces`` says that this very change gives the
    machine to another instance.

    Raises:
        OutrankedError: A newer lease has been here.
        RefusedError: The token is of another instance than this machine's.
    """
    refuse_older(machine, token, replaces=replaces)
    if token is not None:
        machine.files.write_if_changed(
            machine.layout.lease, json.dumps(asdict(token), sort_keys=True).encode(), PRIVATE
        )


def refuse_older(machine: Machine, token: FencingToken | None, *, replaces: bool = False) -> None:
    """Refuse the same tokens as ``admit``, but store nothing; needs no lock.

    Raises:
        OutrankedError: A newer lease has been here.
        RefusedError: The token is of another instance than this machine's.
    """
    highest = highest_token(machine)
    if token is None or highest is None:
        return
    if highest.subject != token.subject and not replaces and _is_at_home(machine, highest):
        raise RefusedError(f"this machine is {highest.subject}'s, and the lease is of {token.subject}")
    if highest.subject == token.subject and token.number < highest.number:
        raise OutrankedError(
            f"the lease {token.words} was taken over: {highest.holder} holds {highest.words} of {highest.subject}"
        )


def highest_token(machine: Machine) -> FencingToken | None:
    """The highest token seen here; ``None`` before the first, and if the file cannot be read."""
    data = machine.files.read(machine.layout.lease)
    if data is None:
        return None
    try:
        return FencingToken(**json.loads(data))
    except (ValueError, TypeError):
        return None


def _is_at_home(machine: Machine, token: FencingToken) -> bool:
    """Whether the machine still belongs to the instance of the last lease that it saw."""
    identity = machine.files.read(machine.layout.identity)
    if identity is None:
        return False
    try:
        return token.subject == f"instance/{identity_from_json(identity).instance}"
    except NodeError:
        return False


def fence(machine: Machine, *, lease: FencingToken | None) -> dict[str, Any]:
    """Stop the gateway, which finishes its work, and let nothing start it; may be repeated."""
    try:
        with machine.files.locked(machine.layout.lock, limit_s=_WAIT_S):
            return _fence(machine, lease)
    except NotReadyError:  # the lock's holder may be waiting for this very gateway, for ever
        refuse_older(machine, lease)
        _take_down(machine)
    with machine.files.locked(machine.layout.lock):
        return _fence(machine, lease)


def _fence(machine: Machine, lease: FencingToken | None) -> dict[str, Any]:
    admit(machine, lease)
    _take_down(machine)
    return {"fenced": True}


def _take_down(machine: Machine) -> None:
    agent = agent_of(machine)
    # First: between a stop and a file written after it, a boot would start the gateway.
    machine.files.write_if_changed(machine.layout.fence, json.dumps({"epoch": _epoch(machine)}).encode(), PRIVATE)
    if gateway.observe(machine.system, agent.base.unit).is_running:
        machine.system.systemctl("stop", agent.base.unit)


def unfence(machine: Machine, *, lease: FencingToken | None) -> dict[str, Any]:
    """Let the gateway be started again; does not start it."""
    with machine.files.locked(machine.layout.lock):
        admit(machine, lease)
        machine.remove(machine.layout.fence)
    return {"fenced": False}


def is_fenced(machine: Machine) -> bool:
    """Whether nothing starts this machine's gateway."""
    return machine.files.read(machine.layout.fence) is not None


def note_restored(machine: Machine, snapshot: str) -> None:
    """Record the copy that replaced the state of a fenced machine; removing the fence removes the record."""
    if is_fenced(machine):
        noted = json.dumps({"epoch": _epoch(machine), "restored": snapshot}).encode()
        machine.files.write_if_changed(machine.layout.fence, noted, PRIVATE)


def restored(machine: Machine) -> str:
    """The copy that replaced the state, as long as nothing can have run since; else empty."""
    return str(_note(machine).get("restored", ""))


def refuse_fenced(machine: Machine, identity: Identity) -> None:
    """Refuse to personalise a fenced machine, unless its own instance comes back to it with a higher epoch.

    Raises:
        RefusedError: It stays fenced.
    """
    if is_fenced(machine) and not _comes_back(machine, identity):
        raise RefusedError(
            f"this machine is fenced, epoch {identity.epoch} is not above {_epoch(machine)}: hermes-node unfence"
        )


def lift_fence(machine: Machine, identity: Identity) -> None:
    """Remove the fence for an instance that comes back; the caller has refused all others."""
    if _comes_back(machine, identity):
        machine.remove(machine.layout.fence)


def _comes_back(machine: Machine, identity: Identity) -> bool:
    data = machine.files.read(machine.layout.identity)
    return (data is None or identity_from_json(data).instance == identity.instance) and identity.epoch > _epoch(machine)


def _epoch(machine: Machine) -> int:
    """The machine's epoch when it was fenced."""
    try:
        return int(_note(machine)["epoch"])
    except (ValueError, TypeError, KeyError):
        data = machine.files.read(machine.layout.identity)
        return identity_from_json(data).epoch if data else 0


def _note(machine: Machine) -> dict[str, Any]:
    """The content of the fence's file; empty if it is old or damaged, though the machine is fenced all the same."""
    try:
        note = json.loads(machine.files.read(machine.layout.fence) or b"{}")
    except ValueError:
        return {}
    return note if isinstance(note, dict) else {}
