"""A warm machine: its gateway runs before the machine has a user, and takes the user over without a restart.

Warming up starts the gateway with a placeholder: an API key that is made here and stays the machine's, and a token that
no model router ever issued, so there is nothing to revoke. A turn that fails for that reason still does the slow work
of a first turn. The user's payload then only writes files, most of which a running agent reads before each turn.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py`` and ``gateway/run.py``: each turn makes an agent anew
from the managed configuration; the managed environment is passed on before its file is read again, so a key is used
from the second turn after it was written on. Tried on a machine, 2026-11-22.
"""

import json
from http import HTTPStatus
from typing import Any

from hermesops.programs.node.instance.agent.installation import Base
from hermesops.programs.node.instance.render import TOKEN_VARIABLE
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire.errors import NotReadyError
from hermesops.wire.protocol import Identity, Payload, Secrets

NOBODY = Identity(instance="nobody", user="nobody", plan="none", cell="none", epoch=0)
_SESSION = "hermes-node-warm"
_TURN_S = 60.0
_KEY_BYTES = 32


def placeholder(machine: Machine, model_base_url: str) -> Payload:
    """The payload of a machine without a user; made once, so that its API key stays.

    Raises:
        BadRequestError: The URL is malformed.
    """
    stored = held_placeholder(machine)
    if stored is not None and stored.model_base_url == model_base_url:
        return stored
    import secrets  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    keys = Secrets(secrets.token_urlsafe(_KEY_BYTES), secrets.token_urlsafe(_KEY_BYTES))
    data = Payload(NOBODY, keys, model_base_url).to_json()
    payload = Payload.from_json(data)  # checked like an uploaded one, before anything is written
    machine.files.write_if_changed(machine.layout.warm, data, PRIVATE)
    return payload


def held_placeholder(machine: Machine) -> Payload | None:
    """The placeholder of the warmed-up machine, until its handover to a user is complete."""
    data = machine.files.read(machine.layout.warm)
    return Payload.from_json(data) if data else None


def is_warm(machine: Machine) -> bool:
    """Whether the gateway runs, or ran, with a placeholder."""
    return machine.files.read(machine.layout.warm) is not None


def take_turn(machine: Machine, base: Base, key: str) -> None:
    """Let the agent take a turn that is discarded.

    Raises:
        NotReadyError: The turn failed.
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


def is_hot(before: bytes | None, after: bytes) -> bool:
    """Whether a running agent picks up a managed file's change without a restart. Pure.

    Verified for the default model and the router's token; everything else counts as read at the start.
    """
    return before is not None and _cold_part(before) == _cold_part(after)


def is_only_token(before: bytes | None, after: bytes) -> bool:
    """Whether a managed file differs in the router's token alone: no reason to interrupt a turn. Pure.

    A token is renewed every few days; other hot values change so rarely that a restart does not matter.
    """
    return before is not None and _without_token(before) == _without_token(after)


def _without_token(data: bytes) -> list[bytes]:
    return [line for line in data.splitlines() if line.partition(b"=")[0] != TOKEN_VARIABLE.encode()]


def _cold_part(data: bytes) -> object:
    try:
        config: dict[str, Any] = json.loads(data)
    except ValueError:
        return _without_token(data)
    return {**config, "model": {name: value for name, value in config.get("model", {}).items() if name != "default"}}
