"""A settings.toml with changed values; comments and other values stay as they are. Pure."""

import json
import re
import tomllib
from collections.abc import Mapping

from hermesops.errors import UsageError

_HEADER = re.compile(r"\s*\[([^\[\]]+)\]\s*(#.*)?")


def edited(text: str, values: Mapping[str, str]) -> str:
    """A settings.toml with values changed or added, and everything else as it is, comments too.

    Args:
        values: By the names of settings; one with a dot is in a table.

    Raises:
        UsageError: The file is written in a way that this cannot change.
    """
    lines, table = [], ""
    for line in text.splitlines():
        header = _HEADER.fullmatch(line)
        table = header[1].strip() if header else table
        key = line.partition("=")[0].strip()
        if header or not key or f"{table}.{key}".lstrip(".") not in values:
            lines.append(line)
    tables: dict[str, list[str]] = {}
    for name, value in values.items():
        where, _, key = name.rpartition(".")
        tables.setdefault(where, []).append(f"{key} = {_quoted(value)}")
    heads = {match[1].strip(): at for at, line in enumerate(lines) if (match := _HEADER.fullmatch(line))}
    for where, added in sorted(tables.items(), key=lambda pair: heads.get(pair[0], len(lines)), reverse=True):
        if where in heads:
            lines[heads[where] + 1 : heads[where] + 1] = added
        elif where:
            lines += [*([""] if lines else []), f"[{where}]", *added]
    lines = [*tables.get("", []), *lines]
    changed = "\n".join(lines) + "\n"
    if _read(changed) != (_read(text) or {}) | dict(values):
        raise UsageError("settings.toml is written in a way that cannot be changed here", hint="set these by hand")
    return changed


def _quoted(value: str) -> str:
    """A text as TOML's basic string, which is JSON's but for one character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _read(text: str) -> dict[str, object] | None:
    try:
        return _flat(tomllib.loads(text))
    except tomllib.TOMLDecodeError:
        return None


def _flat(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
