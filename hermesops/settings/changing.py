"""Changes one setting in settings.toml: validated as a whole first, comments kept, written whole or not at all."""

import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.base.files.private_file import replace_secret
from hermesops.errors import Hint, UsageError
from hermesops.model.unknown_name import unknown_name
from hermesops.settings.edited_text import Removed, edited
from hermesops.settings.environment import Environment
from hermesops.settings.fields import FIELDS, SECRET_KEYS, value_of, variable_of
from hermesops.settings.reading import is_secret_value, parse_text, read_file

_RESTART = Hint("commands read it from now on; restart", ("worker",), "and", ("monitor",), "where they run")
_PLATFORM = Hint(("stack", "up", "platform"), "hands it to the platform's host; restart workers and the monitor")
_MOVED = Hint(
    "the next machines have it; one that exists:", ("instance", "move", "USER", "--region", "REGION", "--reason", "WHY")
)
_RESIZED = Hint(
    "the next machines have it; one that exists:", ("instance", "resize", "USER", "--plan", "PLAN", "--reason", "WHY")
)
_MESSENGERS = Hint(
    ("stack", "up", "platform"),
    "hands it to the platform's host; restart workers; then",
    ("token", "rotate", "--all"),
    "brings the bot and the URL to agents",
)
_EFFECTS: Mapping[str, Hint] = {
    "pool_size": Hint(("job", "run", "pools"), "fills or shrinks the pools; workers do it by themselves"),
    "region": _MOVED,
    "plan_regions": _MOVED,
    "server_types": _RESIZED,
    "data_gb": _RESIZED,
    "image": Hint(("image", "build", "IMAGE"), "if it was never built; the next machines boot from it"),
    "monitoring.loki": Hint(("image", "build", "IMAGE"), "puts it into the image of the next machines"),
    "monitoring.profile": Hint(("image", "build", "IMAGE"), "puts it into the image of the next machines"),
    "local": Hint(("local", "down"), ", then", ("local", "up")),
    "platform": _PLATFORM,
    "billing": _PLATFORM,
    "connections": _PLATFORM,
    "messengers": _MESSENGERS,
    "model": _PLATFORM,
    "router": _PLATFORM,
}
"""Commands that carry a setting on, by its name or its table; others are read by each process at its start."""


@dataclass(frozen=True)
class SettingChange:
    """A change of settings.toml.

    Attributes:
        before, after: Values that the file leads to, the default where it says nothing.
        is_written: ``False`` if the file said that already.
        variable: The variable that wins over the file in this process; empty for none.
        effect: The command after which the change counts everywhere.
    """

    key: str
    before: object
    after: object
    file: Path
    is_written: bool
    variable: str
    effect: Hint


def takes_effect(key: str) -> Hint:
    """The command after which a changed setting counts everywhere. Pure."""
    return _EFFECTS.get(key) or _EFFECTS.get(key.partition(".")[0]) or _RESTART


def change_setting(
    name: str, key: str, text: str | Removed, environ: Mapping[str, str] | None = None, *, dry_run: bool = False
) -> SettingChange:
    """Set one key of an environment's settings.toml, or remove it.

    Args:
        name: Of the environment; empty as in ``Environment.load``.
        text: The value as an operator types it: as in a variable, or TOML for a table or a list.
        dry_run: Only judge the change; ``is_written`` is then whether it would be written.

    Raises:
        UsageError: There is no such setting, it is a secret, or the settings as a whole would be invalid; nothing was
            written.
        NotWrittenError: The disk refused the file.
    """
    if key not in FIELDS:
        raise unknown_name("setting", key, FIELDS)
    value = text if isinstance(text, Removed) else parse_text(key, text)
    _refuse_secret(key, value)
    file = Environment.file(name, environ)
    from_file = read_file(file)
    values = {name: setting for name, setting in {**from_file, key: value}.items() if setting is not Removed.REMOVED}
    # Without the variable of this key, which wins: the file has to be right for other processes too.
    after = Environment.judged(name, values, environ, without=key)
    plain = value if value is Removed.REMOVED else _plain(value_of(after.settings, key), value)
    is_written = from_file.get(key, Removed.REMOVED) != plain
    if is_written and not dry_run:
        _write(file, key, plain)
    variable = variable_of(key)
    return SettingChange(
        key,
        from_file.get(key, FIELDS[key].get_default()),
        value_of(after.settings, key),
        file,
        is_written,
        variable if after.variables.get(variable) is not None else "",
        takes_effect(key),
    )


def _refuse_secret(key: str, value: object) -> None:
    if key not in SECRET_KEYS or value is Removed.REMOVED or not is_secret_value(key, value):
        return
    by_file = f"{key}_file"
    raise UsageError(
        f"{key} is a secret: a command line is seen by other processes and kept in the shell's history",
        hint=Hint(("settings", "set", by_file, "FILE"), "names a file of it")
        if by_file in FIELDS
        else f"write it into settings.toml, mode 0600, or set {variable_of(key)}",
    )


def _plain(value: Any, sample: object) -> object:  # noqa: ANN401 - whatever type the setting has
    """A validated value as TOML has it; a path as it was typed."""
    match value:
        case bool() | int() | float():
            return value
        case frozenset():
            return sorted(map(str, value))
        case Mapping():
            return {str(name): _plain(inner, inner) for name, inner in value.items()}
        case _:
            return str(sample)


def _write(file: Path, key: str, value: object) -> None:
    file = file.resolve()
    exists = file.exists()
    mode = stat.S_IMODE(file.stat().st_mode) if exists else 0
    text = file.read_text(encoding="utf-8-sig") if exists else ""
    replace_secret(file, edited(text, {key: value}))
    if mode:
        file.chmod(mode)
