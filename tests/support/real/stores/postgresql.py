"""A PostgreSQL server of our own: a private cluster on a Unix socket, run by an unprivileged user."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import psycopg

from hermesops.base import waiting
from hermesops.store.registry.open import migrate_registry
from tests.support.real.ends_with_us import INTERRUPTED
from tests.support.suite.memory_folder import memory_folder
from tests.support.worlds.local.left_worlds import remember_folder

_URL = "postgresql:///"
_PLACES = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
_UNPRIVILEGED = ("postgres", "nobody")
_numbers = count(1)


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; Debian keeps them off PATH."""
    on_path = shutil.which("postgres")
    return Path(on_path).parent if on_path else next((place for place in _PLACES if (place / "initdb").exists()), None)


class PostgreSql:
    """A server.

    Args:
        socket_folder: Where its socket is, and its log.
        command: What runs it.
    """

    def __init__(self, socket_folder: Path, command: list[str]) -> None:
        self._socket_folder = socket_folder
        self._command = command
        self._server: subprocess.Popen[bytes]
        self._migrated = ""

    def start(self) -> None:
        """Run it; returns when it takes connections."""
        self.launch()
        self.wait()

    def launch(self) -> None:
        """Run it; ``wait`` says when it takes connections. The main thread's, with which the server ends."""
        with self._log.open("ab") as output:
            self._server = subprocess.Popen(self._command, stdout=output, stderr=output, cwd=self._socket_folder)

    def wait(self) -> None:
        """Wait until it takes connections."""
        for _ in range(200):
            if self.answers():
                return
            assert self._server.poll() is None, self._log.read_text()
            waiting.pause_blocking(0.05)

    def stop(self) -> None:
        """Break every connection and end it."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """End it at once, as after a crash: the next start goes through its log."""
        self._end(signal.SIGQUIT)

    def hang(self) -> None:
        """Stop all its processes where they are, as a machine that stands still does; connections stay open."""
        self._signal_all(signal.SIGSTOP)

    def wake(self) -> None:
        """Let them go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> None:
        """Send a signal to the server, which then starts no further process, and to those of its connections."""
        main = self._server.pid
        self._server.send_signal(number)
        for child in Path(f"/proc/{main}/task/{main}/children").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(child), number)

    @property
    def _log(self) -> Path:
        return self._socket_folder / "log"

    def _end(self, by: signal.Signals) -> None:
        self._server.send_signal(by)
        self._server.wait(timeout=20)

    def restart(self) -> None:
        """Stop it, as a failover does in the middle of everybody's work, and start it again."""
        self.stop()
        self.start()

    def url(self, database: str) -> str:
        """SQLAlchemy's URL of one of its databases."""
        return f"{_URL}{database}?host={self._socket_folder}&user=tester"

    def new_database(self) -> str:
        """Make an empty database and return its URL."""
        return self._made("")

    def new_registry(self) -> str:
        """Make a database with the tables of this revision, and return its URL: a copy, which is faster."""
        if not self._migrated:
            self._migrated = self.new_database()
            migrate_registry(self._migrated)
        return self._made(f"TEMPLATE {_name(self._migrated)} STRATEGY FILE_COPY")

    def drop(self, url: str) -> None:
        """Remove a database, with the connections that are left to it: hundreds would fill the memory.

        Args:
            url: As ``new_registry`` or ``new_database`` returned it.
        """
        self._execute(f"DROP DATABASE {_name(url)} WITH (FORCE)")

    def _made(self, options: str) -> str:
        name = f"registry{next(_numbers)}"
        self._execute(f"CREATE DATABASE {name} {options}")
        return self.url(name)

    def _execute(self, statement: str) -> None:
        with psycopg.connect(host=str(self._socket_folder), user="tester", dbname="postgres", autocommit=True) as admin:
            admin.execute(statement.encode())

    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            psycopg.connect(host=str(self._socket_folder), user="tester", dbname="postgres").close()
        except psycopg.OperationalError:
            return False
        return True


def _name(url: str) -> str:
    return url.removeprefix(_URL).partition("?")[0]


def as_role(url: str, role: str) -> str:
    """The URL of the same database for another role."""
    return url.replace("user=tester", f"user={role}")


def make_role(url: str, role: str) -> None:
    """Make a service's role in a database's server, unless it is there; a migration gives it its rights."""
    with psycopg.connect(url, autocommit=True) as admin:
        if admin.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone() is None:
            admin.execute(f"CREATE ROLE {role} LOGIN".encode())


@contextmanager
def running(*, synced: bool = False) -> Iterator[PostgreSql]:
    """Run a fresh server; it ends with the block, and with this process should that be killed.

    Args:
        synced: Whether a commit is on the disk before it is answered, as on a platform's host.
    """
    bin_folder = programs()
    assert bin_folder, "no PostgreSQL programs on this computer"
    place = None if synced else memory_folder()  # what is synced is about a disk
    with tempfile.TemporaryDirectory(prefix="hermesops-pg-", dir=place) as temporary:
        folder = Path(temporary)
        remember_folder(folder)
        become = _own(folder)
        data = folder / "data"
        subprocess.run(
            [*become, bin_folder / "initdb", "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True,
            capture_output=True,
            cwd=folder,
        )
        options = {
            "listen_addresses": "",
            "unix_socket_directories": folder,
            "timezone": "Asia/Tokyo",
            "fsync": "on" if synced else "off",
            "full_page_writes": "on" if synced else "off",
            "autovacuum": "off",  # it would go through hundreds of databases of ended tests
        }
        command = [*become, str(bin_folder / "postgres"), "-D", str(data)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        server = PostgreSql(folder, command)
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _own(folder: Path) -> list[str]:
    """Give the folder to whoever runs the server (it refuses root); the words that become that user."""
    if os.geteuid() != 0:
        return [*INTERRUPTED]
    user = next(user for user in map(_user, _UNPRIVILEGED) if user)
    os.chown(folder, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--pdeathsig", "INT"]


def _user(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None
