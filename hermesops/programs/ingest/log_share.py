"""The bytes of logs that a machine may send: whole bodies, as each line costs the disk more than its text.

Source: Loki 3.7, measured (``make bench T=ingest``): ``ingestion_rate_mb`` counts the text of lines. One without
text takes 27 bytes of a body, 7 of the write-ahead log and up to 5 of a chunk.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus

from hermesops.programs.ingest.allowance import Allowance

_DIGITS = 10
_MOST_KEPT = 20_000
"""Machines whose use is kept; beyond that, those without any are forgotten."""


@dataclass
class LogShares:
    """The use of each machine.

    Attributes:
        per_s: Bytes that are replenished every second.
        most: Bytes at once.
        now_s: Reads a clock, in seconds.
    """

    per_s: float
    most: float
    now_s: Callable[[], float]
    refused: int = 0
    _used: dict[str, Allowance] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def admit(self, machine: str, size: str) -> HTTPStatus:
        """Count a body; returns 401 where the machine has used its share, and 403 for a body without a known size.

        Args:
            machine: Id of the sender; nginx takes it from the certificate.
            size: The value of Content-Length.
        """
        if not machine or not (size.isascii() and size.isdigit() and len(size) < _DIGITS):
            return HTTPStatus.FORBIDDEN
        with self._lock:
            now_s = self.now_s()
            allowance = self._used.get(machine) or self._new(machine, now_s)
            if allowance.is_overdrawn(now_s):
                self.refused += 1
                return HTTPStatus.UNAUTHORIZED
            allowance.use(int(size))
            return HTTPStatus.NO_CONTENT

    def _new(self, machine: str, now_s: float) -> Allowance:
        if len(self._used) >= _MOST_KEPT:
            self._used = {name: each for name, each in self._used.items() if each.is_overdrawn(now_s) or each.used}
        allowance = self._used[machine] = Allowance(self.per_s, self.most, now_s)
        return allowance
