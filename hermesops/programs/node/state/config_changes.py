"""Settings that changed in one form of the user's configuration, migrated to another form of it. Pure.

A migration renames and moves settings, so a file of a newer schema cannot be given to an older agent. A setting is
migrated only where the migration had left it as it was: under the same path, with the same value. A setting that
neither file has had is added. All others are named, and stay in the newer file.

hermes-node has no YAML library. It reads the block style that agents write (keys, plain and quoted scalars, lists and
texts as whole blocks), takes nothing from any other file, and reads its own result again before that is used.

Source: YAML 1.2.2, chapters 6 to 8; hermes-agent 0.19.0, ``atomic_yaml_write`` in ``utils.py``: no flow style.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

Path = tuple[str, ...]

_KEY = re.compile(r"( *)([A-Za-z0-9_](?:[A-Za-z0-9_./@+ -]*[A-Za-z0-9_])?|'[^']+'|\"[^\"\\]+\"):(?: +(\S.*?))? *")
_BLOCK_TEXT = re.compile(r"[|>][+-]?[0-9]?[+-]?(?: +#.*)?")
_SINGLE = re.compile(r"'((?:[^']|'')*)'(?: +#.*)?")
_DOUBLE = re.compile(r"\"((?:[^\"\\]|\\.)*)\"(?: +#.*)?")
_FLOW = re.compile(r"\[[^\x00-\x1f]*\]|\{[^\x00-\x1f]*\}")
_PLAIN = re.compile(r"(?:[^\s\[\]{},&*!|>'\"%@`#?:-]|[-:?](?=\S))[^\x00-\x1f]*")
_TYPED = re.compile(r"[-+.]?[0-9][0-9_.eE+:-]*|true|false|yes|no|on|off|null|~|\.inf|\.nan", re.IGNORECASE)
_OTHER_SPACE = re.compile("[\t\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029\ufeff]")
"""Breaks lines for some readers of YAML, or indents."""

_LINES, _DEPTH, _NAME = 20_000, 20, 120
NAMED = 50
"""Names of settings at most."""

SETTING = re.compile(rf"[A-Za-z0-9_.?-]{{1,{_NAME}}}")
"""A setting's name as it is reported."""
_VERSION: Path = ("_config_version",)
WHOLE = "config.yaml"
"""Named where a file is not in block style, so that its settings cannot be told apart."""


class OddFileError(ValueError):
    """A file is in another style than agents write."""


@dataclass(frozen=True)
class SettingsResult:
    """The settings that the user changed under a newer release, at the way back to an older one.

    Attributes:
        migrated: Number of settings that are in force under the older release, too.
        lost: Names of those that are in the newer file only, as ``display.theme``.
    """

    migrated: int = 0
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """A setting: the lines ``first`` to ``end`` of a file, of which the first has its key.

    Attributes:
        value: Equal for two spellings of one value; ``None`` for a mapping, whose settings are entries of their own.
    """

    path: Path
    indent: int
    first: int
    end: int
    value: object


def changed_settings(before: str, after: str) -> tuple[str, ...]:
    """Names of the settings that differ between two files of one schema; ``WHOLE`` where they cannot be told apart."""
    try:
        older, newer = _settings(before), _settings(after)
    except OddFileError:
        return () if before == after else (WHOLE,)
    differ = [path for path in {**older, **newer} if path != _VERSION and _value(older, path) != _value(newer, path)]
    return tuple(map(_name, differ[:NAMED]))


def migrate_changes(base: str, newer: str, older: str) -> tuple[str, SettingsResult]:
    """Migrate the changes from one file to its later form to a third one.

    Args:
        base: The configuration as the migration left it.
        newer: The same, later.
        older: The configuration in the form before the migration.

    Returns:
        The older one with the changes, and their number and names.
    """
    try:
        before, now = _settings(base), _settings(newer)
    except OddFileError:
        return older, SettingsResult(lost=() if base == newer else (WHOLE,))
    changed = [path for path in {**before, **now} if path != _VERSION and _value(before, path) != _value(now, path)]
    text, lost, expected = older, [], 0
    for path in changed:
        try:
            entry = now.get(path)
            text = _changed(text, path, before.get(path), newer.split("\n")[entry.first : entry.end] if entry else [])
            expected += 1
        except OddFileError:
            lost.append(_name(path))
    return text, SettingsResult(expected, tuple(lost[:NAMED]))


def _changed(text: str, path: Path, before: _Entry | None, lines: Sequence[str]) -> str:
    """A file with one setting as it is in ``lines``; none to remove it.

    Raises:
        OddFileError: It has another value there than the setting had before, or the result is not what was wanted.
    """
    entries = _entries(text)
    entry = entries.get(path)
    wanted = {each.path: each.value for each in entries.values() if each.value is not None}
    if lines:
        wanted[path] = _entries("\n".join(_shifted(lines, 0)))[path[-1:]].value
    else:
        wanted.pop(path, None)
    if entry and entry.value == wanted.get(path):
        return text
    if (entry.value if entry else None) != (before.value if before else None):
        raise OddFileError
    every = text.split("\n")
    if entry:
        every[entry.first : entry.end] = _shifted(lines, entry.indent)
    elif lines:
        place, indent, missing = _place(entries, path, len(every))
        heads = [f"{' ' * (indent + 2 * number)}{key}:" for number, key in enumerate(missing)]
        every[place:place] = [*heads, *_shifted(lines, indent + 2 * len(missing))]
    result = "\n".join(every)
    if {each.path: each.value for each in _entries(result).values() if each.value is not None} != wanted:
        raise OddFileError
    return result


def _place(entries: Mapping[Path, _Entry], path: Path, end: int) -> tuple[int, int, Path]:
    """The line for a new setting, its indent there, and the keys above it that are not there yet."""
    for depth in range(len(path) - 1, 0, -1):
        above = entries.get(path[:depth])
        if above:
            inner = [each.indent for each in entries.values() if each.path[:-1] == above.path]
            if above.value is not None or not inner:
                raise OddFileError
            return above.first + 1, inner[0], path[depth:-1]
    return end - 1 if end else 0, 0, path[:-1]


def _name(path: Path) -> str:
    """A setting for messages: keys are the user's own text."""
    return re.sub(r"[^A-Za-z0-9_.-]", "?", ".".join(path))[:_NAME]


def _shifted(lines: Sequence[str], indent: int) -> list[str]:
    """Lines of one setting with its key at another indent."""
    if not lines:
        return []
    own = len(lines[0]) - len(lines[0].lstrip(" "))
    return [" " * indent + line[own:] if line.strip() else line for line in lines]


def _settings(text: str) -> dict[Path, _Entry]:
    return {path: entry for path, entry in _entries(text).items() if entry.value is not None}


def _value(entries: Mapping[Path, _Entry], path: Path) -> object:
    return entries[path].value if path in entries else None


def _entries(text: str) -> dict[Path, _Entry]:
    """The settings and mappings of a file by path.

    Raises:
        OddFileError: It is not in block style, or has a key twice.
    """
    lines = text.split("\n")
    if len(lines) > _LINES or _OTHER_SPACE.search(text):
        raise OddFileError
    entries: dict[Path, _Entry] = {}
    for entry in _read(lines) if text != "{}\n" else ():
        if entry.path in entries or len(entry.path) > _DEPTH:
            raise OddFileError
        entries[entry.path] = entry
    return entries


def _read(lines: Sequence[str]) -> Iterator[_Entry]:
    above: list[tuple[int, str]] = []
    indents: dict[Path, int] = {(): 0}
    number = 1 if lines[0] == "---" else 0
    while number < len(lines):
        if _is_blank(lines[number]):
            number += 1
            continue
        match = _KEY.fullmatch(lines[number])
        if match is None:
            raise OddFileError
        indent, key, inline = len(match[1]), match[2], match[3] or ""
        above = [each for each in above if each[0] < indent]
        path = (*(each[1] for each in above), key)
        if indents.setdefault(path[:-1], indent) != indent:
            raise OddFileError
        inline = "" if inline.startswith("#") else inline
        end = _end(lines, number, indent, is_text=_BLOCK_TEXT.fullmatch(inline) is not None)
        if not inline and _is_mapping(lines[number + 1 : end], indent):
            yield _Entry(path, indent, number, end, None)
            above.append((indent, key))
            number += 1
        else:
            yield _Entry(path, indent, number, end, _value_of(inline, lines[number + 1 : end]))
            number = end


def _end(lines: Sequence[str], number: int, indent: int, *, is_text: bool) -> int:
    """The line after the last one of a setting; blank lines and comments behind it are not its own."""
    last = number + 1
    for position in range(number + 1, len(lines)):
        line = lines[position]
        if not line.strip() or (_is_blank(line) and not is_text):
            continue
        own = len(line) - len(line.lstrip(" "))
        if own < indent or (own == indent and (is_text or not _is_item(line))):
            break
        last = position + 1
    return last


def _is_mapping(lines: Sequence[str], indent: int) -> bool:
    first = next((line for line in lines if not _is_blank(line)), "")
    return _KEY.fullmatch(first) is not None and len(first) - len(first.lstrip(" ")) > indent


def _is_item(line: str) -> bool:
    return line.lstrip(" ").startswith("- ") or line.strip() == "-"


def _value_of(inline: str, lines: Sequence[str]) -> object:
    """A value that can be compared: of a scalar, or of a whole block, as a list or a text."""
    inner = [line for line in lines if not _is_blank(line)]
    if _BLOCK_TEXT.fullmatch(inline):
        return ("text", inline.partition(" ")[0], *_dedented(lines))
    if not inline and inner:
        if not _is_item(inner[0]):
            raise OddFileError
        return ("list", *_dedented(inner))
    return _of_lines(inline, lines) if inner else _scalar(inline)


def _of_lines(inline: str, lines: Sequence[str]) -> object:
    """A scalar of several lines, as agents write a long one."""
    quote = inline[0] if inline[0] in "'\"" else ""
    whole = "\n".join((inline, *lines))
    if any(line.lstrip(" ").startswith("#") for line in lines) or not whole.endswith(quote):
        raise OddFileError
    if not quote and (not _PLAIN.fullmatch(inline) or " #" in whole or ": " in whole or ":\n" in whole):
        raise OddFileError
    return ("lines", inline, *_dedented(lines))


def _scalar(inline: str) -> object:
    if single := _SINGLE.fullmatch(inline):
        return ("str", single[1].replace("''", "'"))
    if double := _DOUBLE.fullmatch(inline):
        return ("escaped" if "\\" in double[1] else "str", double[1])
    plain = re.split(r" +#", inline, maxsplit=1)[0].rstrip()
    if _FLOW.fullmatch(plain):
        return ("flow", plain)
    if plain and (not _PLAIN.fullmatch(plain) or ": " in plain or plain.endswith(":")):
        raise OddFileError
    return ("plain", plain.lower() or "null") if _TYPED.fullmatch(plain or "null") else ("str", plain)


def _dedented(lines: Sequence[str]) -> tuple[str, ...]:
    indents = [len(line) - len(line.lstrip(" ")) for line in lines if line.strip()]
    return tuple(line[min(indents, default=0) :].rstrip() for line in lines)


def _is_blank(line: str) -> bool:
    return not line.strip() or line.lstrip(" ").startswith("#")
