"""The filter ``hermes_deployed_rules``: a file of alert rules as a server gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hermesops.alerts.rules import deployed

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = """
name: hermes_deployed_rules
short_description: Alert rules as a server gets them
description:
    - Multiplies every waiting time in a file of Prometheus's rules, and completes the addresses of runbooks.
author: hermesops
options:
    _input:
        description: Text of the file.
        type: string
        required: true
    scale:
        description: What times are multiplied by.
        type: float
        required: true
    runbooks_url:
        description: Base of the runbooks' addresses.
        type: string
        required: true
"""


def _deployed(text: str, scale: float, runbooks_url: str) -> str:
    return deployed(text, scale=float(scale), runbooks_url=runbooks_url)


class FilterModule:
    """Ansible looks for this class."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Name and function."""
        return {"hermes_deployed_rules": _deployed}
