"""The filters ``hermes_files`` and ``hermes_contents``: lists for module ``hermes_files``, not a line for each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

DOCUMENTATION = """
name: hermes_files
short_description: Files of a folder that are alike
description:
    - An entry for the module C(hermes_files) for each name. C({}) in a value is the name.
author: hermesops
options:
    _input:
        description: Names; an empty one is the folder itself.
        type: list
        elements: string
        required: true
    folder:
        description: Where they are.
        type: string
        required: true
"""


def _files(names: Iterable[str], folder: str, **entry: str) -> list[dict[str, str]]:
    return [
        {"path": f"{folder}/{name}".rstrip("/"), **{key: value.replace("{}", name) for key, value in entry.items()}}
        for name in names
    ]


def _contents(contents: Mapping[str, str], folder: str, **entry: str) -> list[dict[str, str]]:
    """An entry for each name; none where the content is empty, so that the host's file is left alone."""
    return [{"path": f"{folder}/{name}", "content": content, **entry} for name, content in contents.items() if content]


class FilterModule:
    """Ansible looks for this class."""

    def filters(self) -> dict[str, Callable[..., list[dict[str, str]]]]:
        """Names and functions."""
        return {"hermes_files": _files, "hermes_contents": _contents}
