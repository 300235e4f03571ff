"""Wiring by noun: each function makes one part of the container or of its connections.

``hermesops.app.container`` and ``hermesops.app.connected`` list them. A function imports only what its part needs.
"""

from hermesops.app.parts import (
    access,
    automation,
    backups,
    cells,
    chat,
    connections,
    console,
    drift,
    fleet,
    instances,
    machines,
    messaging,
    monitoring,
    operations,
    registry,
    rollouts,
    stacks,
    users,
)

__all__ = [
    "access",
    "automation",
    "backups",
    "cells",
    "chat",
    "connections",
    "console",
    "drift",
    "fleet",
    "instances",
    "machines",
    "messaging",
    "monitoring",
    "operations",
    "registry",
    "rollouts",
    "stacks",
    "users",
]
