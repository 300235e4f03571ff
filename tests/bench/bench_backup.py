"""Backups of a large state through the object store of a local world, beside ``tar | restic`` of the same folder.

What goes to the object store is counted on a link of its own, in both directions.
"""

import base64
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Credential
from hermesops.programs.node.state import backup
from tests.bench.figures import Board, report, seconds_of
from tests.support.fakes.machines.node_home import PASSWORD, NodeHome, make
from tests.support.real.counted_link import Link, counted_link
from tests.support.real.stores.object_store import served_store

MESSAGES = 350_000
MESSAGE_BYTES = 2_000
FILES = 3_000
FILE_BYTES = 100_000
_OURS, _TAR = InstanceId("ours"), InstanceId("tar")
_MB = 1e6


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    machine = make(folder / "machine")
    report("==> making a state")
    size = fill(machine.home)
    with ExitStack() as ending:
        store = ending.enter_context(served_store(folder / "world"))
        url = urlsplit(store.bucket.endpoint)
        link = ending.enter_context(counted_link(url.hostname or "", url.port or 80))
        bucket = replace(store.bucket, endpoint=f"http://127.0.0.1:{link.port}")
        credential = store.platform.credential()
        places = {name: bucket.repository("bench", name).url for name in (_OURS, _TAR)}
        for place in places.values():
            _restic(place, credential, "init")
        tar = _Tar(machine.home, places[_TAR], credential)

        def ours() -> None:
            backup.backup(machine.node, _payload(machine, places[_OURS], credential), lease=None)

        what = f"{size / _MB:,.0f} MB of state"
        turns: tuple[tuple[str, str, Callable[[], None]], ...] = (
            (f"first backup of {what}", "", lambda: None),
            ("  again, nothing changed", "<= 10 s, <= 1 % of it", lambda: None),
            ("  again, every file written anew with what it had", "<= 1 % of it", lambda: touch(machine.home)),
            ("  again, after a conversation", "", lambda: machine.say("One thing more")),
        )
        for label, target, change in turns:
            change()
            took, beside = _run(link, size, ours), _run(link, size, tar.run)
            board.add(label, took, target=target, against=f"tar | restic: {beside}")
        report("==> restoring")
        beside = _run(link, size, lambda: tar.restore(folder / "restored"))
        shutil.rmtree(folder / "restored")
        took = _run(
            link,
            size,
            lambda: backup.restore(machine.node, _payload(machine, places[_OURS], credential), lease=None),
        )
        board.add("  restored, proved and put in place", took, against=f"restic dump | tar, not proved: {beside}")
        took = _run(link, size, ours)
        board.add("  first backup after the restore", took, target="<= 1 % of it")


def fill(home: Path) -> int:
    """Give an agent a long life; what its files hold, in bytes."""
    database = sqlite3.connect(home / "state.db")
    database.executemany(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', ?, ?)",
        ((base64.b64encode(os.urandom(MESSAGE_BYTES * 3 // 4)).decode(), number) for number in range(MESSAGES)),
    )
    database.commit()
    database.close()
    for number in range(FILES):
        path = home / f"skills/kind{number % 30}/skill{number}/data"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(FILE_BYTES))
    return sum(path.stat().st_size for path in home.rglob("*") if path.is_file())


def touch(home: Path) -> None:
    """Give every file another time."""
    for number, path in enumerate(sorted((home / "skills").rglob("*"))):
        os.utime(path, (number, 1_700_000_000 + number))


def _run(link: Link, size: int, run: Callable[[], object]) -> str:
    link.taken()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = seconds_of(run)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    sent, received = link.taken()
    wire = f"{sent / _MB:.2f} MB up, {received / _MB:.2f} MB down ({(sent + received) / size:.2%})"
    return f"{seconds:.1f} s, processor {processor:.1f} s, {wire}"


def _payload(machine: NodeHome, place: str, credential: Credential) -> Path:
    return machine.upload(repository=place, access_key=credential.access_key, secret_key=credential.secret_key)


class _Tar:
    """The two programs, as somebody without hermes-node would join them; a database in use would be torn."""

    def __init__(self, home: Path, place: str, credential: Credential) -> None:
        self._home, self._place, self._credential = home, place, credential

    def run(self) -> None:
        """Back up."""
        with subprocess.Popen(["tar", "-c", "--sort=name", "-C", self._home, "."], stdout=subprocess.PIPE) as tar:
            _restic(
                self._place,
                self._credential,
                *("backup", "--stdin", "--stdin-filename", "state.tar"),
                given=tar.stdout.fileno() if tar.stdout else None,
            )
        assert tar.returncode == 0

    def restore(self, folder: Path) -> None:
        """Make a folder of the newest."""
        folder.mkdir()
        with subprocess.Popen(["tar", "-x", "-C", folder], stdin=subprocess.PIPE) as tar:
            _restic(
                self._place,
                self._credential,
                *("dump", "--no-lock", "latest", "/state.tar"),
                out=tar.stdin.fileno() if tar.stdin else None,
            )
        assert tar.returncode == 0


def _restic(place: str, credential: Credential, *words: str, given: int | None = None, out: int | None = None) -> None:
    environment = {
        "PATH": os.defpath,
        "GOGC": "20",
        "RESTIC_REPOSITORY": place,
        "RESTIC_PASSWORD": PASSWORD,
        "AWS_ACCESS_KEY_ID": credential.access_key,
        "AWS_SECRET_ACCESS_KEY": credential.secret_key,
    }
    subprocess.run(
        ["restic", "--no-cache", "--quiet", *words],
        env=environment,
        stdin=subprocess.DEVNULL if given is None else given,
        stdout=subprocess.DEVNULL if out is None else out,
        check=True,
    )
