"""The gateway on this machine: its unit, and its HTTP API on loopback."""

import http.client
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.node.errors import NotReadyError

_PROPERTIES = (
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "NRestarts",
    "ExecMainStatus",
    "ActiveEnterTimestampMonotonic",
    "WatchdogUSec",
    "StatusText",
    "UnitFileState",
    "ConditionResult",
)
_RUNNING = frozenset({"active", "activating", "reloading", "deactivating"})


@dataclass(frozen=True)
class Unit:
    """What systemd says about the gateway's unit."""

    properties: Mapping[str, str]

    @property
    def state(self) -> str:
        """ActiveState, in systemd's words."""
        return self.properties.get("ActiveState", "unknown")

    @property
    def is_running(self) -> bool:
        """Whether a process runs, is being started, or is being stopped."""
        return self.state in _RUNNING

    @property
    def uptime_s(self) -> float | None:
        """Seconds since it became active; ``None`` when it is not."""
        entered = int(self.properties.get("ActiveEnterTimestampMonotonic") or 0)
        if self.state != "active" or not entered:
            return None
        return round(time.clock_gettime(time.CLOCK_MONOTONIC) - entered / 1e6, 1)


@dataclass(frozen=True)
class Answer:
    """What the agent's API said. ``status`` 0 means nobody answered, and ``body`` says why."""

    status: int
    body: Any


def look(unit: str) -> Unit:
    """Ask systemd about a unit."""
    output = _systemctl("show", unit, f"--property={','.join(_PROPERTIES)}")
    pairs = (line.partition("=") for line in output.splitlines())
    return Unit({name: value for name, _, value in pairs})


def start(unit: str) -> None:
    """Start a unit that is not running; returns at once, readiness is for the caller to see."""
    _systemctl("reset-failed", unit, check=False)
    _systemctl("start", "--no-block", unit)


def restart(unit: str) -> None:
    """Stop a unit, letting it finish what it is doing, and start it again; returns when it has stopped."""
    _systemctl("stop", unit)
    start(unit)


def _systemctl(*words: str, check: bool = True) -> str:
    try:
        done = subprocess.run(["systemctl", *words], capture_output=True, text=True, check=False, timeout=150)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReadyError(f"systemctl {words[0]}: {error}") from error
    if check and done.returncode:
        raise NotReadyError(f"systemctl {' '.join(words)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def ask(
    port: int, path: str, *, key: str = "", body: Mapping[str, Any] | None = None, timeout_s: float = 5.0
) -> Answer:
    """One request to the agent's API; ``body`` makes it a POST."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    content = None
    if body is not None:
        content, headers["Content-Type"] = json.dumps(body), "application/json"
    try:
        connection.request("GET" if body is None else "POST", path, body=content, headers=headers)
        response = connection.getresponse()
        data = response.read()
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, str(error) or type(error).__name__)
    finally:
        connection.close()
    try:
        return Answer(response.status, json.loads(data))
    except ValueError:
        return Answer(response.status, data.decode(errors="replace")[:400])


def wait_until_healthy(port: int, key: str, *, timeout_s: float, pause: Callable[[float], None] = time.sleep) -> Answer:
    """Wait until the gateway says that all is well; the last answer, whatever it was, when time is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        answer = ask(port, "/health")
        if answer.status == http.HTTPStatus.OK:
            answer = ask(port, "/health/detailed", key=key)
            if answer.status == http.HTTPStatus.UNAUTHORIZED or is_ok(answer):
                return answer
        if time.monotonic() >= deadline:
            return answer
        pause(0.1)


def is_ok(answer: Answer) -> bool:
    """Whether a detailed health answer says that all is well; its status code is 200 even when it does not."""
    return answer.status == http.HTTPStatus.OK and isinstance(answer.body, dict) and answer.body.get("status") == "ok"
