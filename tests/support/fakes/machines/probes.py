"""What hermes-node's ``probe`` says of an agent that is well."""

import json

from hermesops.vendor.channel import Completed

_TOLD = {
    "at": 0,
    "since": None,
    "release": "r1",
    "gateway": "ok",
    "restarts": 0,
    "errors": None,
    "memory_bytes": 1,
    "queue_age_s": 0,
    "turn": None,
}
WELL = Completed(0, json.dumps(_TOLD).encode(), b"")
