"""The gateway on this machine: its unit, and its HTTP API on loopback."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from hermesops.node.instance.agent.api import Answer, says_ok
from hermesops.node.ports import System

_PROPERTIES = (
    "ActiveState",
    "SubState",
    "Result",
    "MainPID",
    "NRestarts",
    "ExecMainStatus",
    "ActiveEnterTimestampMonotonic",
    "Type",
    "WatchdogUSec",
    "StatusText",
    "UnitFileState",
    "ConditionResult",
    "ControlGroup",
    "MemoryCurrent",
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
    def restarts(self) -> int:
        """How often systemd has started it again since somebody did."""
        return int(self.properties.get("NRestarts") or 0)

    def uptime_s(self, now: float) -> float | None:
        """Seconds since it became active, on the machine's monotonic clock; ``None`` when it is not."""
        entered = int(self.properties.get("ActiveEnterTimestampMonotonic") or 0)
        if self.state != "active" or not entered:
            return None
        return round(now - entered / 1e6, 1)


def look(system: System, unit: str) -> Unit:
    """Ask systemd about a unit."""
    output = system.systemctl("show", unit, f"--property={','.join(_PROPERTIES)}")
    pairs = (line.partition("=") for line in output.splitlines())
    return Unit({name: value for name, _, value in pairs})


def start(system: System, unit: str) -> None:
    """Start a unit that is not running; returns at once, readiness is for the caller to see."""
    system.systemctl("reset-failed", unit, check=False)
    system.systemctl("start", "--no-block", unit)


def restart(system: System, unit: str) -> None:
    """Stop a unit, letting it finish what it is doing, and start it again; returns when it has stopped."""
    system.systemctl("stop", unit)
    start(system, unit)


def wait_until_healthy(system: System, port: int, key: str, *, timeout_s: float) -> Answer:
    """Wait until the gateway says that all is well; the last answer, whatever it was, when time is up."""
    deadline = system.monotonic() + timeout_s
    while True:
        answer = system.ask(port, "/health")
        if answer.status == HTTPStatus.OK:
            answer = system.ask(port, "/health/detailed", key=key)
            if answer.status == HTTPStatus.UNAUTHORIZED or is_ok(answer):
                return answer
        if system.monotonic() >= deadline:
            return answer
        system.sleep(0.1)


def is_ok(answer: Answer) -> bool:
    """Whether a detailed health answer says that all is well; its status code is 200 even when it does not."""
    return answer.status == HTTPStatus.OK and says_ok(answer.body)
