"""The faults of a simulated release, as its lock declares them, and the machines they affect.

The managed environment of such a release has a variable ``HERMES_SIMULATED_FAULT``: ``start:0.3,slow:1:2.5`` breaks
the start on three machines of ten, and makes every turn take two and a half times as long. Pure: who is hit follows
from the machine and the release, so that it is the same each time.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

VARIABLE = "HERMES_SIMULATED_FAULT"


class ReleaseFault(StrEnum):
    """A fault of a release, in the order in which an activation meets them."""

    TRIAL = "trial"
    """The trial finds it: nothing that runs was touched."""

    MIGRATES = "migrates"
    """The release before does not run on what this one makes of the state."""

    START = "start"
    """The gateway ends as soon as it was started."""

    TURN = "turn"
    """It answers, and takes no turn."""

    LATE = "late"
    """It takes turns only for some seconds after its start."""

    SLOW = "slow"
    """Factor of the duration of a turn."""

    MEMORY = "memory"
    """It holds so many times as much memory."""

    ERRORS = "errors"
    """Errors an hour in its log."""

    RESTARTS = "restarts"
    """systemd starts it again so many times an hour."""

    QUEUE = "queue"
    """A job has been waiting for so many seconds."""


_AMOUNTS: Mapping[ReleaseFault, float] = {
    ReleaseFault.LATE: 20,
    ReleaseFault.SLOW: 3,
    ReleaseFault.MEMORY: 3,
    ReleaseFault.ERRORS: 600,
    ReleaseFault.RESTARTS: 60,
    ReleaseFault.QUEUE: 3600,
}
"""The usual amount of a fault that has one."""

_HOUR_S = 3600
_MEMORY = 150 << 20
"""Bytes that an agent holds soon after its start."""

_TURN_S = 0.2
"""Seconds that a turn takes, more or less."""


def release_faults_of(text: str, machine_id: str, release: str) -> Mapping[ReleaseFault, float]:
    """The faults of a release on one machine, with the amount of each.

    Raises:
        ValueError: The text is not of that form.
    """
    faults = {}
    for part in filter(None, text.split(",")):
        name, share, *amount = part.split(":")
        fault = ReleaseFault(name)
        if draw(machine_id, release, name) < float(share):
            faults[fault] = float(*amount) if amount else _AMOUNTS.get(fault, 0)
    return faults


@dataclass(frozen=True)
class Symptoms:
    """The behaviour of a gateway under its release's faults, ``uptime_s`` seconds after its start."""

    machine_id: str
    faults: Mapping[ReleaseFault, float]
    uptime_s: float

    @property
    def takes_turns(self) -> bool:
        """Whether the agent answers a turn that begins now."""
        late = self.faults.get(ReleaseFault.LATE)
        return ReleaseFault.TURN not in self.faults and (late is None or self.uptime_s < late)

    def turn_s(self, turn: str) -> float:
        """Seconds of a turn, which vary."""
        noise = 0.9 + 0.2 * draw(self.machine_id, "turn", turn)
        return _TURN_S * noise * self.faults.get(ReleaseFault.SLOW, 1)

    @property
    def restarts(self) -> int:
        """Number of restarts by systemd since the start."""
        return self._hourly(ReleaseFault.RESTARTS)

    @property
    def errors(self) -> int:
        """Number of errors in the log since the start."""
        return self._hourly(ReleaseFault.ERRORS)

    def _hourly(self, fault: ReleaseFault) -> int:
        return int(self.uptime_s * self.faults.get(fault, 0) / _HOUR_S)

    @property
    def memory_bytes(self) -> int:
        """Memory in use by the gateway, in bytes."""
        noise = 0.95 + 0.1 * draw(self.machine_id, "memory")
        return int(_MEMORY * self.faults.get(ReleaseFault.MEMORY, 1) * noise)


def draw(*words: str) -> float:
    """A number from 0 up to 1, evenly distributed and determined by words alone."""
    return int.from_bytes(hashlib.sha256("\0".join(words).encode()).digest()[:8]) / 2**64
