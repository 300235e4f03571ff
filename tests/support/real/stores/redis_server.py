"""A Redis server of our own: Debian's program, on a Unix socket, which keeps nothing on disk."""

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from hermesops.base import waiting
from tests.support.real.debian import REDIS, unpacked
from tests.support.real.ends_with_us import KILLED
from tests.support.suite.prerequisites import require


class RedisServer:
    """A server.

    Args:
        folder: Where its socket and its log are.
        root: Where Debian's packages are unpacked; ``None`` for programs on the path.
        port: Of loopback, for clients that know no socket; 0 for none.
    """

    def __init__(self, folder: Path, root: Path | None, port: int = 0) -> None:
        self._folder = folder
        self._root = root
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Run it; returns when it takes connections."""
        program = self._root / "usr/bin/redis-server" if self._root else "redis-server"
        library = self._root / "usr/lib/x86_64-linux-gnu" if self._root else ""
        options = {"port": self._port, "bind": "127.0.0.1", "unixsocket": self._socket, "dir": self._folder}
        options |= {"save": "", "appendonly": "no"}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        with (self._folder / "redis.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*KILLED, str(program), *words],
                stdout=log,
                stderr=log,
                env={"LD_LIBRARY_PATH": str(library)},
            )
        for _ in range(200):
            if self._socket.exists():
                return
            assert self._process.poll() is None, (self._folder / "redis.log").read_text()
            waiting.pause_blocking(0.05)
        raise AssertionError("Redis does not begin to listen")

    def kill(self) -> None:
        """Kill it, and all that it knows with it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._socket.unlink(missing_ok=True)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it is dead."""
        if self._process is not None:
            self._process.send_signal(number)

    def client(self) -> Any:  # noqa: ANN401 - redis-py's answers have a type that depends on its options
        """A client, as the API has one."""
        return Redis(unix_socket_path=str(self._socket))

    @property
    def _socket(self) -> Path:
        return self._folder / "redis.sock"


@contextmanager
def redis_server(folder: Path, port: int = 0) -> Iterator[RedisServer]:
    """Run a fresh server; it ends with the block, and with this process should that be killed.

    Args:
        port: As of ``RedisServer``.
    """
    root = None if shutil.which("redis-server") else unpacked(*REDIS)
    require(root or shutil.which("redis-server"), "redis-server")
    server = RedisServer(folder, root, port)
    server.start()
    try:
        yield server
    finally:
        server.kill()
