"""An agent that no index has: the wheel of 0.19.0 as a later version, whose state the real one cannot open.

It renames a column that 0.19.0 asks for whenever it opens the state, and keeps rows that 0.19.0 has no table for, so
the way back over a migration is a real one. Everything else of it is the real agent.
"""

import base64
import csv
import hashlib
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

OLD = "0.19.0"
SCHEMA = 99
TABLE = "message_notes"
"""Holds a row for each message that the newer agent wrote."""

_STATE: Mapping[str, str] = {
    "SCHEMA_VERSION = 22\n": f"SCHEMA_VERSION = {SCHEMA}\n",
    "CREATE TABLE IF NOT EXISTS schema_version (\n    version INTEGER NOT NULL\n);\n": f"""\
CREATE TABLE IF NOT EXISTS schema_version (
    number INTEGER NOT NULL
);

CREATE TABLE IF NOT EXISTS {TABLE} (
    message INTEGER PRIMARY KEY,
    note TEXT NOT NULL
);
""",
    "        cursor.executescript(SCHEMA_SQL)\n\n        # ── Declarative": f"""\
        held = {{row[1] for row in cursor.execute("PRAGMA table_info(schema_version)")}}
        if "version" in held and "number" not in held:
            cursor.execute("ALTER TABLE schema_version RENAME COLUMN version TO number")
        cursor.executescript(SCHEMA_SQL)
        cursor.execute(
            "CREATE TRIGGER IF NOT EXISTS note_message AFTER INSERT ON messages BEGIN "
            "INSERT INTO {TABLE}(message, note) VALUES (new.id, 'written by a newer agent'); END"
        )

        # ── Declarative""",  # noqa: S608 - of a test's own constant
    '"SELECT version FROM schema_version LIMIT 1"': '"SELECT number AS version FROM schema_version LIMIT 1"',
    '"INSERT INTO schema_version (version) VALUES (?)"': '"INSERT INTO schema_version (number) VALUES (?)"',
    '"UPDATE schema_version SET version = ?"': '"UPDATE schema_version SET number = ?"',
}

_DIES = """
if sys.argv[1:3] == ["gateway", "run"]:
    sys.exit("this agent was made so that it cannot start")
"""


def newer_agent(wheel: Path, folder: Path, *, version: str = "0.20.0", dies: bool = False, schema: int = 0) -> Path:
    """Make the wheel; the same arguments give the same bytes.

    Args:
        wheel: Of 0.19.0.
        folder: Takes it.
        version: What it calls itself.
        dies: Whether its gateway ends at once.
        schema: Of the user's configuration as it writes it, with the state of 0.19.0; 0 for the other way round.
    """
    with zipfile.ZipFile(wheel) as archive:
        files = {_renamed(name, version): archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    if schema:
        _change(files, "hermes_cli/config.py", {'    "_config_version": 33,\n': f'    "_config_version": {schema},\n'})
    else:
        _change(files, "hermes_state.py", _STATE)
    _change(files, "hermes_cli/__init__.py", {f'__version__ = "{OLD}"': f'__version__ = "{version}"'})
    if dies:
        files["hermes_cli/__init__.py"] += _DIES.encode()
    info = f"hermes_agent-{version}.dist-info"
    _change(files, f"{info}/METADATA", {f"\nVersion: {OLD}\n": f"\nVersion: {version}\n"})
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    target = folder / f"hermes_agent-{version}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return target


def _renamed(name: str, version: str) -> str:
    return name.replace(f"hermes_agent-{OLD}.dist-info/", f"hermes_agent-{version}.dist-info/", 1)


def _change(files: dict[str, bytes], name: str, changes: Mapping[str, str]) -> None:
    text = files[name].decode()
    for old, new in changes.items():
        assert text.count(old) == 1, f"{name} of {OLD} is another one than this was made for: {old!r}"
        text = text.replace(old, new)
    files[name] = text.encode()


def _record(files: Mapping[str, bytes], own: str) -> bytes:
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    for name in sorted(files.keys() - {own}):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name]).digest()).rstrip(b"=").decode()
        writer.writerow([name, f"sha256={digest}", len(files[name])])
    writer.writerow([own, "", ""])
    return lines.getvalue().encode()
