"""The resource ``justavps:index:Image``: a disk saved of a machine. Pure."""

import re

from hermesops.provider.resource import Kind, Property

TYPE = "justavps:index:Image"
"""Pulumi's type token."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def _is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


IMAGE = Kind(
    type=TYPE,
    noun="image",
    description="A disk saved of a machine as of one instant; machines boot from it. It outlives its machine.",
    inputs=(
        Property("name", "Name in the vendor's list; the resource's own name if left out. Unique.", replaces=True),
        Property("machine_id", "The ready machine whose disk is saved.", required=True, replaces=True),
    ),
    computed=(
        Property("status", "The vendor's word for its state when it was last looked at."),
        Property("created_at", "When the vendor began to save it."),
    ),
    is_name=_is_name,
    name_form="letters, digits, dots, dashes and underscores, 100 at most",
)
