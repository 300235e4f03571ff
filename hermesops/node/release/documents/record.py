"""``release.json`` of a slot: what it is, and all of it that going over to it needs. Pure."""

import json

from hermesops.node.release.documents.lock import Lock

ORIGIN = "node"
"""Of slots that hermes-node has made; roles leave such a machine's units alone."""

SHOWN = ("id", "hermes_agent", "python", "lock_sha256", "origin")
"""Fields that are for people."""


def record_of_lock(lock: Lock, python: str) -> bytes:
    """The record of a slot that is made from a lock."""
    record = {
        "id": lock.id,
        "hermes_agent": lock.agent_version,
        "python": python,
        "lock_sha256": lock.digest,
        "origin": ORIGIN,
        "managed": {"config": dict(lock.managed.config), "environment": dict(lock.managed.environment)},
        "lock": lock.to_json().decode(),
    }
    return json.dumps(record, sort_keys=True, indent=1).encode() + b"\n"
