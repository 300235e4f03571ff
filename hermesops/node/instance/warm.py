"""A machine that waits for its user with its gateway running, and becomes theirs without a restart.

Warming up starts the gateway with a placeholder: an API key that is made here and stays the machine's, and a token that
no model router ever issued, so that there is nothing to revoke. A turn that fails for that reason has paid all the same
what a first turn costs. Who gets the machine lacks only files, most of which a running agent reads before each turn.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py`` and ``gateway/run.py``: for each turn an agent is made
anew from the managed configuration; of the managed environment it is told before the file is read again, so that a key
counts from the second turn after it was written. Tried on a machine, 2026-11-22.
"""

import json
import secrets
from http import HTTPStatus
from typing import Any

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.instance.agent.base_config import Base
from hermesops.node.instance.render import TOKEN_VARIABLE
from hermesops.node.machine import Machine
from hermesops.node.protocol import Identity, Payload, Secrets
from hermesops.node.system.files import Access

_PRIVATE = Access(0o600)
NOBODY = Identity(instance="nobody", user="nobody", plan="none", cell="none", epoch=0)
_SESSION = "hermes-node-warm"
_TURN_S = 60.0
_KEY_BYTES = 32


def refuse_owned(machine: Machine) -> None:
    """Let only a machine without an instance be warmed up.

    Raises:
        RefusedError: It is somebody's.
    """
    if machine.files.read(machine.layout.identity) is not None:
        raise RefusedError("this machine belongs to an instance: only an unassigned one is warmed up")


def placeholder(machine: Machine, model_base_url: str) -> Payload:
    """What a machine without a user runs with; made once, so that its API key stays.

    Raises:
        BadRequestError: The address is none.
    """
    held = held_placeholder(machine)
    if held is not None and held.model_base_url == model_base_url:
        return held
    keys = Secrets(secrets.token_urlsafe(_KEY_BYTES), secrets.token_urlsafe(_KEY_BYTES))
    data = Payload(NOBODY, keys, model_base_url).to_json()
    made = Payload.from_json(data)  # checked as one that came from elsewhere, before anything is written
    machine.files.write_if_changed(machine.layout.warm, data, _PRIVATE)
    return made


def held_placeholder(machine: Machine) -> Payload | None:
    """What the machine was warmed up with, until it has become somebody's in full."""
    data = machine.files.read(machine.layout.warm)
    return Payload.from_json(data) if data else None


def is_warm(machine: Machine) -> bool:
    """Whether the gateway runs, or ran, with a placeholder."""
    return machine.files.read(machine.layout.warm) is not None


def take_turn(machine: Machine, base: Base, key: str) -> None:
    """Have the agent take a turn of its own, which nobody reads and of which nothing stays.

    Raises:
        NotReadyError: It did not.
    """
    ask = machine.system.ask
    ask(base.port, "/api/sessions", key=key, body={"id": _SESSION})
    try:
        answer = ask(base.port, f"/api/sessions/{_SESSION}/chat", key=key, body={"message": "ping"}, timeout_s=_TURN_S)
    finally:
        gone = ask(base.port, f"/api/sessions/{_SESSION}", key=key, method="DELETE")
    if answer.status != HTTPStatus.OK:
        raise NotReadyError(f"the gateway took no turn: {answer.status}")
    if gone.status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:
        raise NotReadyError(f"the gateway keeps the session of its first turn: {gone.status}")


def hand_over(machine: Machine, base: Base, key: str, *, was_restarted: bool) -> None:
    """End the placeholder: the agent reads what is its user's, and what it was warmed up with is removed.

    Raises:
        NotReadyError: The agent took no turn; the same again goes on.
    """
    if not was_restarted:
        take_turn(machine, base, key)
    machine.remove(machine.layout.warm)


def is_hot(before: bytes | None, after: bytes) -> bool:
    """Whether a running agent comes to what a managed file says now without a restart. Pure.

    Verified of the default model and of the token for the router; whatever else differs counts as read at the start.
    """
    return before is not None and _cold_part(before) == _cold_part(after)


def is_only_token(before: bytes | None, after: bytes) -> bool:
    """Whether a managed file is another one by the token for the router alone: no reason to stop anybody's turn. Pure.

    A token is renewed every few days; what else is hot is changed by whoever can wait for a restart.
    """
    return before is not None and _without_token(before) == _without_token(after)


def _without_token(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if line.partition(b"=")[0] != TOKEN_VARIABLE.encode()]


def _cold_part(data: bytes) -> object:
    try:
        config: dict[str, Any] = json.loads(data)
    except ValueError:
        lines = data.decode(errors="replace").splitlines()
        return [line for line in lines if line.partition("=")[0] != TOKEN_VARIABLE]
    return {**config, "model": {name: value for name, value in config.get("model", {}).items() if name != "default"}}
