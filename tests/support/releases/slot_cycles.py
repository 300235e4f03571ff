"""Releases that come and go under an agent that is written to all the time: SQLite and the code of slots are real.

The newer release renames a column, so that the older one can neither read nor write what it leaves.
"""

import sqlite3
import threading
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from hermesops.programs.node.instance.personalise import personalise
from hermesops.programs.node.ports import TrialResult
from hermesops.programs.node.release import activate, inventory, rollback
from hermesops.programs.node.release.activate import Options, confirm
from hermesops.programs.node.release.fetch import fetch
from hermesops.programs.node.state import snapshots
from hermesops.programs.node.state.snapshots import RestoreResult
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.wire.protocol import Check
from tests.support.releases.machine_home import OLD, GatewaySystem, ReleaseHome, lock_of, make

LOCK = lock_of("0.20.0")


class WrittenSystem(GatewaySystem):
    """While its gateway runs, messages are accepted, and each is in the database when it is."""

    def control(self, *words: str) -> str:
        ran = self.running
        if words[0] in {"stop", "kill"} and ran:
            self.writer.stop()
        answer = super().control(*words)
        if self.running and not ran:
            self.writer.start(newer=self.runs != OLD)
        return answer

    writer: "Writer"


@dataclass
class Writer:
    """Writes as a gateway does.

    Attributes:
        database: Into which.
        accepted: What was said to be written.
    """

    database: Path
    accepted: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    wrote: threading.Event = field(default_factory=threading.Event)
    _ending: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self, *, newer: bool) -> None:
        self._ending.clear()
        self.wrote.clear()
        self._thread = threading.Thread(target=self._write, kwargs={"newer": newer}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread:
            self._thread.join()

    def _write(self, *, newer: bool) -> None:
        try:
            with closing(sqlite3.connect(self.database, isolation_level=None, timeout=30)) as held:
                held.execute("PRAGMA synchronous=OFF")  # no power is cut here, and there are a thousand cycles
                column = "body" if newer else "content"
                names = {row[1] for row in held.execute("PRAGMA table_info(messages)")}
                if newer and "body" not in names:
                    held.execute("ALTER TABLE messages RENAME COLUMN content TO body")
                    held.execute("ALTER TABLE messages ADD COLUMN content TEXT")
                    held.execute(
                        "CREATE TRIGGER both AFTER INSERT ON messages BEGIN "
                        "UPDATE messages SET content = new.body WHERE id = new.id; END"
                    )
                elif not newer and "body" in names:
                    self.problems.append("the older release met what the newer one has made")
                    return
                while not self._ending.is_set():
                    text = f"message {len(self.accepted)}"
                    held.execute(f"INSERT INTO messages (session_id, role, {column}) VALUES ('s1', 'user', ?)", (text,))  # noqa: S608 - ours
                    self.accepted.append(text)
                    self.wrote.set()
                    self._ending.wait(0.002)
        except sqlite3.Error as error:
            self.problems.append(str(error))


class SqliteState:
    """The ``State`` of a machine, in this process."""

    def keep(self, home: AgentHome, name: str) -> None:
        snapshots.keep(home.path, name)

    def preview(self, home: AgentHome, name: str) -> RestoreResult:
        return snapshots.preview(home.path, name)

    def restore(self, home: AgentHome, name: str) -> RestoreResult:
        return snapshots.restore(home.path, name)

    def prune(self, home: AgentHome, *, older_than_s: float) -> int:
        return snapshots.prune(home.path, older_than_s)


@dataclass
class Cycled:
    """What came of cycles: messages that were accepted, and those of them that are not there once."""

    accepted: int
    lost: int
    doubled: int
    problems: list[str]


def cycle(folder: Path, count: int) -> Cycled:
    """Bring a release and leave it so many times: every other time by itself, else because somebody asks."""
    folder.mkdir(parents=True, exist_ok=True)
    home = make(folder)
    database = home.home.home / "state.db"
    system = WrittenSystem(layout=home.layout)
    system.writer = Writer(database)
    home.system = home.home.system = home.slots._system = system
    home.state = SqliteState()  # type: ignore[assignment]  # as much of one as is asked for
    home.slots.tried = TrialResult((Check("health", ok=True),), "copy")
    personalise(home.node, home.home.personalised(), wait_s=60)
    home.upload(LOCK)
    fetch(home.node, home.offer(LOCK), lease=None)
    for number in range(count):
        _go(home, number)
    system.writer.stop()
    with closing(sqlite3.connect(database)) as held:
        counts = Counter(text for (text,) in held.execute("SELECT content FROM messages WHERE role = 'user'"))
    accepted = system.writer.accepted
    return Cycled(
        len(accepted),
        sum(counts[text] == 0 for text in accepted),
        sum(counts[text] > 1 for text in accepted),
        system.writer.problems,
    )


def _go(home: ReleaseHome, number: int) -> None:
    writer: Writer = home.system.writer  # type: ignore[attr-defined]  # see cycle
    writer.wrote.wait(30)
    _, code = activate.activate(home.node, LOCK.id, Options(), lease=None, progress=lambda _: None)
    assert code == 0
    assert writer.wrote.wait(30), writer.problems
    if number % 2:
        confirm(home.node, LOCK.id, lease=None)
        writer.wrote.wait(30)
        rollback.rollback(home.node, loses=True, lease=None)
    else:
        home.system.sleep(3600)
        rollback.settle(home.node)
    home.system.sleep(1)
    inventory.gc(home.node, keep=2, lease=None)
    assert home.layout.current.readlink().name == OLD
