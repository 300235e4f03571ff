"""A slot's Python uses the release's SQLite, with the distribution's options; its children use the distribution's."""

import json
import subprocess
from pathlib import Path

import pytest

from hermesops.machines.release.sqlite import version_of
from hermesops.wire.documents.lock import Blob
from tests.support.real.sqlite import sqlite_builder

SYSTEM = "/usr/bin/python3"
_SHOWS = """
import json, os, sqlite3
db = sqlite3.connect(":memory:")
db.enable_load_extension(True)
options = [row[0] for row in db.execute("PRAGMA compile_options")]
db.execute("CREATE VIRTUAL TABLE words USING fts5(text, tokenize='trigram')")
db.execute("SELECT json_extract('[1]', '$[0]')").fetchone()
maps = {line.split()[-1] for line in open("/proc/self/maps") if "libsqlite3" in line}
about = {"version": sqlite3.sqlite_version, "options": options, "maps": sorted(maps), "safe": sqlite3.threadsafety}
print(json.dumps({**about, "env": sorted(name for name in os.environ if name.startswith("LD_"))}))
"""
_STARTS = f"import subprocess, sqlite3\nprint(subprocess.check_output(['{SYSTEM}', '-c', '''{_SHOWS}''']).decode())"
NEWER_DEFAULTS = {"DIRECT_OVERFLOW_READ", "MAX_FUNCTION_ARG=1000", "MAX_PAGE_COUNT=0xfffffffe"}


@pytest.fixture(scope="module")
def slot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A slot's Python with the files beside its packages; its version is in the name of the library."""
    folder = tmp_path_factory.mktemp("slot")
    subprocess.run([SYSTEM, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    site = next((folder / "venv/lib").glob("python3.*/site-packages"))
    for name, content in sqlite_builder().files((), lambda _: b"", lambda _: None).items():
        (site / name).write_bytes(content)
    return folder


def shown(python: Path | str, code: str = _SHOWS) -> dict[str, object]:
    done = subprocess.run([python, "-P", "-c", code], capture_output=True, text=True, check=True)
    result: dict[str, object] = json.loads(done.stdout)
    return result


def names_of(options: set[str]) -> set[str]:
    return {option.partition("=")[0] for option in options}


def test_it_is_used_with_the_distributions_options(slot: Path) -> None:
    ours, theirs = shown(slot / "venv/bin/python"), shown(SYSTEM)
    (library,) = slot.rglob("libsqlite3-*.so")
    assert ours["version"] == version_of([Blob(library.name, "0" * 64, 1)])
    assert ours["maps"] == [str(library)]
    assert (ours["safe"], ours["env"]) == (theirs["safe"], [])
    our_options, their_options = set(map(str, ours["options"])), set(map(str, theirs["options"]))  # type: ignore[call-overload]
    differing = {option for option in our_options ^ their_options if not option.startswith("COMPILER=")}
    assert our_options & differing <= NEWER_DEFAULTS
    assert {option.partition("=")[0] for option in their_options} <= {
        option.partition("=")[0] for option in our_options
    }


def test_what_it_starts_uses_the_distributions(slot: Path) -> None:
    assert shown(slot / "venv/bin/python", _STARTS) == shown(SYSTEM)
