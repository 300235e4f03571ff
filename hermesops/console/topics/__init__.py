"""Readers of the shapes that pages show, by the kind of their topic; each reads the registry alone, and blocks."""

from typing import TYPE_CHECKING, Any

from hermesops.console.topics import instances, listings, operations, rollouts, runbooks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hermesops.app.container import Container

READERS: "Mapping[str, Callable[[Container, str], Mapping[str, Any]]]" = {
    "instances": instances.listed,
    "instance": instances.shown,
    "listing": listings.rows,
    "operations": operations.listed,
    "operation": operations.shown,
    "batch": operations.batch,
    "rollouts": rollouts.listed,
    "rollout": rollouts.shown,
    "approvals": rollouts.approvals,
    "run": runbooks.run,
}
"""Each is given the name of the topic."""
