"""The write-ahead log of many connections is reset under checkpoints: the release's SQLite damages no database.

How often the distribution's does is printed; it may be never within the time, as the defect is a race.
``HERMESOPS_TEST_WAL_S`` sets the seconds of each.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tests.support.real import sqlite, wal_reset

pytestmark = [pytest.mark.timeout(1200)]

SECONDS = float(os.environ.get("HERMESOPS_TEST_WAL_S", "60"))  # noqa: TID251 - the tests' own switch, not a setting


def hammer(folder: Path, *library: str) -> dict[str, Any]:
    done = subprocess.run(
        ["/usr/bin/python3", "-I", wal_reset.__file__, str(folder), str(SECONDS), *library],
        capture_output=True,
        text=True,
        timeout=SECONDS * 5 + 120,
        check=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_the_releases_sqlite_damages_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ours, theirs = hammer(tmp_path, str(sqlite.library())), hammer(tmp_path)
    with capsys.disabled():
        for result in (theirs, ours):
            Console().print(
                f"SQLite {result['version']}: {result['damaged']} of {result['rounds']} databases damaged "
                f"({result['commits']} commits) {result['first'] or ''}"
            )
    assert ours["version"] != theirs["version"]
    assert ours["damaged"] == 0, ours["first"]
    assert ours["commits"] > 1000
