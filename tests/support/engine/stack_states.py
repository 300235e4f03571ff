"""States of stacks, as Pulumi writes them."""

import hashlib
from typing import Any

from hermesops.model.stack import StackRef

VERSION = "v3.259.0"


def state_of(ref: StackRef, resources: int) -> dict[str, Any]:
    """``checkpoint.latest`` with that many resources, the stack among them."""
    root = f"urn:pulumi:{ref.stack}::{ref.project}::pulumi:pulumi:Stack::{ref.project}-{ref.stack}"
    others = [
        {
            "urn": f"urn:pulumi:{ref.stack}::{ref.project}::a:b:C::{number}",
            "custom": False,
            "type": "a:b:C",
            "parent": root,
        }
        for number in range(1, resources)
    ]
    return {
        "manifest": {
            "time": "2026-01-01T00:00:00Z",
            "magic": hashlib.sha256(VERSION.encode()).hexdigest(),
            "version": VERSION,
        },
        "resources": [{"urn": root, "custom": False, "type": "pulumi:pulumi:Stack"}, *others],
        "metadata": {},
    }
