"""Variables as Ansible takes them from a file: plain JSON, in which no text is a template. Pure."""

from collections.abc import Mapping
from typing import Any

_TEMPLATES = ("{{", "{%", "{#")


def literal(value: object) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """A value with mappings, tuples, enums and paths as JSON knows them; Ansible evaluates none of its texts.

    A command of an operator may hold ``{{…}}``, as Docker's formats do, and a text of a machine may hold anything.
    """
    if isinstance(value, Mapping):
        return {str(key): literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [literal(item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    # Ansible's own mark in JSON of a text that is no template.
    return {"__ansible_unsafe": text} if any(mark in text for mark in _TEMPLATES) else text
