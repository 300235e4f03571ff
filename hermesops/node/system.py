"""The operating system around hermes-node: accounts, systemd, the agent's HTTP API on loopback, time.

This module is the ``System`` of ``node.ways`` on a real machine; it must not decide anything.
"""

import http.client
import json
import pwd
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.node.errors import NotReadyError
from hermesops.node.files import Access

monotonic = time.monotonic
"""Seconds on the clock that systemd's monotonic times are of."""

now = time.time
"""Seconds since 1970."""

sleep = time.sleep
"""Wait some seconds."""


_LONGEST_ANSWER = 16 << 20
"""Bytes; what was said in one long session is the longest that is asked for."""

SOURCE = "127.0.0.9"
"""Where hermes-node's own connections to the agent come from, so that ``node.gate`` can let them through alone."""


@dataclass(frozen=True)
class Answer:
    """What the agent's API said. ``status`` 0 means nobody answered, and ``body`` says why."""

    status: int
    body: Any

    def at(self, *names: str) -> Any:  # noqa: ANN401 - whatever JSON has there
        """The value below these names; ``None`` where one is missing, or something on the way is no object."""
        value = self.body
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value


def account(user: str) -> Access | None:
    """What a private file of a user's looks like; ``None`` when there is no such user."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return None
    return Access(0o600, entry.pw_uid, entry.pw_gid)


def systemctl(*words: str, check: bool = True) -> str:
    """What systemctl prints.

    Raises:
        NotReadyError: It cannot be run, or, with ``check``, it failed.
    """
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False, timeout=150)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReadyError(f"systemctl {words[0]}: {error}") from error
    if check and done.returncode:
        raise NotReadyError(f"systemctl {' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def ask(
    port: int,
    path: str,
    *,
    key: str = "",
    body: Mapping[str, Any] | None = None,
    method: str = "",
    timeout_s: float = 5.0,
) -> Answer:
    """One request to the agent's API; ``body`` makes it a POST, unless a method is named.

    The agent may let anything listen there: an answer ends within twice ``timeout_s``, and is read to a limit.
    """
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s, source_address=(SOURCE, 0))
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    content = None
    if body is not None:
        content, headers["Content-Type"] = json.dumps(body), "application/json"
    try:
        connection.connect()
        with _ended_after(2 * timeout_s, connection.sock) as is_late:
            connection.request(method or ("GET" if body is None else "POST"), path, body=content, headers=headers)
            response = connection.getresponse()
            data = response.read(_LONGEST_ANSWER + 1)
    except (OSError, http.client.HTTPException, UnicodeError) as error:  # the last: an id of the agent's in the path
        return Answer(0, str(error) or type(error).__name__)
    finally:
        connection.close()
    if is_late.is_set():
        return Answer(0, f"the answer did not end within {2 * timeout_s:g} s")
    if len(data) > _LONGEST_ANSWER:
        return Answer(response.status, f"an answer of more than {_LONGEST_ANSWER} bytes")
    try:
        return Answer(response.status, json.loads(data))
    except (ValueError, RecursionError):
        return Answer(response.status, data.decode(errors="replace")[:400])


@contextmanager
def _ended_after(seconds: float, connection: socket.socket) -> Iterator[threading.Event]:
    """Hang up after so long; the event tells whether that was done. A timeout alone counts from each byte anew."""
    is_late = threading.Event()

    def hang_up() -> None:
        is_late.set()
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, hang_up)
    timer.start()
    try:
        yield is_late
    finally:
        timer.cancel()


_ESTABLISHED = "01"


def connections(port: int) -> int:
    """How many connections to a port of the machine are open.

    Source: proc(5), ``/proc/net/tcp``: local address, remote address and state are the second to the fourth column.
    """
    found = 0
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            local, _, state = line.split()[1:4]
            found += state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port
    return found
