"""The highest fencing token this machine has seen, and the refusal of whoever comes with an older one.

Whoever changes a machine holds a lease. One that was taken over may not know it yet; the machine does.
"""

import json
from dataclasses import asdict

from hermesops.node.errors import NodeError, OutrankedError, RefusedError
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken, identity_from_json
from hermesops.node.system.files import Access

_PRIVATE = Access(0o600)


def admit(machine: Machine, token: FencingToken | None, *, replaces: bool = False) -> None:
    """Let a change go on only under the newest lease that this machine knows of; a newer one is remembered.

    The caller holds the machine's lock and has made sure that the machine is the caller's to change.

    Args:
        machine: Which.
        token: Of the lease that the change is made under; ``None`` comes from a hermesops of before tokens, which
            node protocol 1 lets through.
        replaces: Whether the machine becomes another instance's by this very change.

    Raises:
        OutrankedError: A newer lease has been here.
        RefusedError: The token is of another instance than this machine's.
    """
    refuse_older(machine, token, replaces=replaces)
    if token is not None:
        machine.files.write_if_changed(
            machine.layout.lease, json.dumps(asdict(token), sort_keys=True).encode(), _PRIVATE
        )


def refuse_older(machine: Machine, token: FencingToken | None, *, replaces: bool = False) -> None:
    """Refuse what ``admit`` refuses, and remember nothing; whoever does not hold the machine's lock may ask this.

    Raises:
        OutrankedError: A newer lease has been here.
        RefusedError: The token is of another instance than this machine's.
    """
    held = highest(machine)
    if token is None or held is None:
        return
    if held.subject != token.subject and not replaces and _is_at_home(machine, held):
        raise RefusedError(f"this machine is {held.subject}'s, and the lease is of {token.subject}")
    if held.subject == token.subject and token.number < held.number:
        raise OutrankedError(
            f"the lease {token.words} was taken over: {held.holder} was here with {held.words} of {held.subject}"
        )


def highest(machine: Machine) -> FencingToken | None:
    """The newest token seen here; ``None`` before the first, and where what was kept cannot be read."""
    data = machine.files.read(machine.layout.lease)
    if data is None:
        return None
    try:
        return FencingToken(**json.loads(data))
    except (ValueError, TypeError):
        return None


def _is_at_home(machine: Machine, held: FencingToken) -> bool:
    """Whether the machine is still that of the instance whose lease it saw last."""
    identity = machine.files.read(machine.layout.identity)
    if identity is None:
        return False
    try:
        return held.subject == f"instance/{identity_from_json(identity).instance}"
    except NodeError:
        return False
