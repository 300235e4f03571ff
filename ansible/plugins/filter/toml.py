"""The filter ``hermes_toml``: tables as a TOML document, as ``hermesops.settings`` reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import tomli_w

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DOCUMENTATION = """
name: hermes_toml
short_description: A TOML document
description:
    - JSON is no TOML - a table in a line has C(=), and an escaped character beyond 16 bits is no pair there.
author: hermesops
options:
    _input:
        description: Tables, keys and values. TOML has no null.
        type: dict
        required: true
"""


def _toml(tables: Mapping[str, object]) -> str:
    return tomli_w.dumps(tables)


class FilterModule:
    """Ansible looks for this class."""

    def filters(self) -> dict[str, Callable[..., str]]:
        """Names and functions."""
        return {"hermes_toml": _toml}
