"""The vendor's documented misbehaviour, on order: each rule fires a number of times and is gone.

A rule says only that something goes wrong; the places where it goes wrong ask ``take`` at that very moment.
"""

import math
from collections.abc import Collection
from enum import StrEnum
from uuid import uuid4

from hermesops.errors import UsageError
from hermesops.localcloud.rows import FaultRow
from hermesops.localcloud.store import Store

EDGE_S = 100
"""Seconds of silence after which the vendor's edge cuts a request.

Source: Cloudflare's error 524; the vendor's public client starts long work detached because of it, 2026.
"""


class FaultKind(StrEnum):
    """What can go wrong."""

    CREATED_BUT_5XX = "create-5xx-but-created"
    NOT_FOUND = "not-found-for-a-while"
    READY_EARLY = "ready-before-bootstrapped"
    LOST_ANSWER = "lost-answer"
    ERROR_THEN_READY = "error-then-ready"
    PROXY_UNAUTHORISED = "proxy-unauthorised"
    PAYMENT_REQUIRED = "payment-required"
    UNPROCESSABLE = "unprocessable"
    SERVER_ERROR = "server-error"
    SILENCE_CUT = "silence-cut"

    @property
    def meaning(self) -> str:
        """One line for people."""
        return _MEANINGS[self]


_MEANINGS = {
    FaultKind.CREATED_BUT_5XX: "a new machine is made, and the answer is 500",
    FaultKind.NOT_FOUND: "a machine that exists answers 404",
    FaultKind.READY_EARLY: "a new machine is called ready before anything on it runs",
    FaultKind.LOST_ANSWER: "the call is carried out, and the connection drops instead of an answer",
    FaultKind.ERROR_THEN_READY: "a new machine is called broken until it turns out well",
    FaultKind.PROXY_UNAUTHORISED: "the proxy refuses a good token",
    FaultKind.PAYMENT_REQUIRED: "a new machine is refused with 402",
    FaultKind.UNPROCESSABLE: "a new machine is refused with 422 about its disk",
    FaultKind.SERVER_ERROR: "the call is refused with a 5xx, and nothing happened",
    FaultKind.SILENCE_CUT: "a toolbox or proxy request that is silent for --seconds is cut; what it began goes on",
}


def known(kind: str) -> FaultKind:
    """The fault of that name.

    Raises:
        UsageError: There is none.
    """
    if kind not in set(FaultKind):
        raise UsageError(f"no fault is called {kind!r}", hint=f"one of: {', '.join(FaultKind)}")
    return FaultKind(kind)


class Faults:
    """The rules, in the world's store, so that they outlive the server."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self,
        kind: str,
        *,
        machine: str = "",
        times: int = 1,
        method: str = "",
        path: str = "",
        status: int = 500,
        seconds: int = EDGE_S,
    ) -> FaultRow:
        """Order a fault.

        Args:
            kind: One of ``FaultKind``.
            machine: Id, name or slug; empty for any. A machine of that name need not exist yet.
            times: How often.
            method: HTTP method; empty for any.
            path: Beginning of the path below ``/api/v1``; empty for any.
            status: Status of a ``server-error``.
            seconds: Silence that a ``silence-cut`` cuts.

        Raises:
            UsageError: Unknown kind, or a figure out of range.
        """
        known(kind)
        if times < 1:
            raise UsageError(f"a fault happens at least once, not {times} times")
        if not 500 <= status <= 599:  # noqa: PLR2004 - the range of HTTP's server errors
            raise UsageError(f"{status} is not a status of a server error (500 to 599)")
        if seconds < 1:
            raise UsageError(f"a silence lasts at least a second, not {seconds}")
        row = FaultRow(str(uuid4()), kind, machine, times, method.upper(), path, status, seconds)
        self._store.add(row)
        return row

    def waiting(self) -> list[FaultRow]:
        """Those that have not all happened yet."""
        return self._store.find(FaultRow)

    def shortest_silence(self) -> int | None:
        """Seconds of the shortest silence that is to be cut; ``None`` while none is."""
        return min((row.seconds for row in self._store.find(FaultRow, kind=FaultKind.SILENCE_CUT)), default=None)

    def clear(self) -> int:
        """Forget them all; says how many there were."""
        rows = self.waiting()
        for row in rows:
            self._store.remove(FaultRow, row.id)
        return len(rows)

    def take(
        self,
        kind: FaultKind,
        machine: Collection[str] = (),
        *,
        method: str = "",
        path: str = "",
        silent_s: float = math.inf,
    ) -> FaultRow | None:
        """Let a fault happen now if one is waiting, and count it.

        Args:
            kind: Which.
            machine: What the machine concerned is called: its id, name and slug; empty when none is.
            method: HTTP method of the call.
            path: Its path below ``/api/v1``.
            silent_s: How long it has been silent.
        """
        for row in self._store.find(FaultRow, kind=kind):
            if row.machine and row.machine not in machine:
                continue
            if (row.method and row.method != method) or not path.startswith(row.path):
                continue
            if silent_s < row.seconds:
                continue
            if row.times > 1:
                self._store.update(FaultRow, row.id, times=row.times - 1)
            else:
                self._store.remove(FaultRow, row.id)
            return row
        return None
