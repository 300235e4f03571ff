"""A settings.toml with changed values; comments and other values stay as they are. Pure."""

import tomllib
from collections.abc import Mapping
from enum import Enum
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from hermesops.errors import UsageError
from hermesops.settings.reading import flat


class Removed(Enum):
    """Stands for a value that is taken out of the file."""

    REMOVED = 0


def edited(text: str, values: Mapping[str, object]) -> str:
    """A settings.toml with values changed, added or removed, and everything else as it is, comments too.

    Args:
        values: By the names of settings; one with a dot is in a table.

    Raises:
        UsageError: The file is written in a way that this cannot change.
    """
    try:
        document = tomlkit.parse(text)
        for name, value in values.items():
            _put(document, name, value)
        changed = document.as_string()
        if flat(tomllib.loads(changed)) == _expected(text, values):
            return changed
    except (TOMLKitError, TypeError, ValueError):  # ValueError: what it wrote is no TOML
        pass
    raise UsageError("settings.toml is written in a way that cannot be changed here", hint="set these by hand")


def _put(document: tomlkit.TOMLDocument, name: str, value: object) -> None:
    section, _, key = name.rpartition(".")
    if section and section not in document:
        document[section] = tomlkit.table()
    table: Any = document[section] if section else document
    if value is Removed.REMOVED:
        del table[key]
    else:
        table[key] = value


def _expected(text: str, values: Mapping[str, object]) -> dict[str, object]:
    merged = {**flat(tomllib.loads(text)), **values}
    return {name: value for name, value in merged.items() if value is not Removed.REMOVED}
