"""The filter ``hermes_rule_files``: files of alert rules as a server gets them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.observability.alerts.rules import deployed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

DOCUMENTATION = """
name: hermes_rule_files
short_description: Alert rules as a server gets them
description:
    - Multiplies every waiting time in files of Prometheus's rules, and completes the addresses of runbooks.
    - Returns an entry for the module C(hermes_files) for each, which Prometheus's own tool has to accept.
author: hermesops
options:
    _input:
        description: Paths of the files on the controller.
        type: list
        elements: string
        required: true
    folder:
        description: Where a server has them.
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


def _rule_files(paths: Iterable[str], folder: str, scale: float, runbooks_url: str) -> list[dict[str, str]]:
    return [
        {
            "path": f"{folder}/{Path(path).name}",
            "content": deployed(Path(path).read_text(), scale=float(scale), runbooks_url=runbooks_url),
            "validate": "promtool check rules %s",
        }
        for path in paths
    ]


class FilterModule:
    """Ansible looks for this class."""

    def filters(self) -> dict[str, Callable[..., list[dict[str, str]]]]:
        """Name and function."""
        return {"hermes_rule_files": _rule_files}
