"""Injected faults: each rule applies as often as it says and is then removed.

A rule says only that something goes wrong; the code that can go wrong asks ``take`` at that very moment.
"""

import functools
import math
import random
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from uuid import uuid4

from hermesops.errors import UsageError
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import FaultRow, now
from hermesops.model.unknown_name import unknown_name


@dataclass(frozen=True)
class FaultOrder:
    """An order for a fault: its kind, the affected calls, and the number of times.

    Attributes:
        machine: Id, name or slug; empty for any. A machine of that name need not exist yet.
        times: How often; ``None`` is once, or as often as it comes where probability or duration bound it.
        path: Beginning of the path below ``/api/v1``, ``*`` standing for one part; empty for any.
        status: Status it answers, where its kind leaves that open; ``None`` for the kind's usual one.
        seconds: What its kind counts in seconds; ``None`` for the kind's usual figure.
        probability: That it strikes where it could.
        seed: The same seed draws the same sequence.
        for_s: Seconds after which it ends by itself; ``None`` for never.
    """

    kind: str
    machine: str = ""
    times: int | None = None
    method: str = ""
    path: str = ""
    status: int | None = None
    seconds: int | None = None
    probability: float = 1.0
    seed: int = 0
    for_s: int | None = None

    def to_row(self) -> FaultRow:
        """The rule, checked.

        Raises:
            UsageError: Unknown kind, or a figure out of range.
        """
        if self.kind not in set(FaultKind):
            raise unknown_name("fault", self.kind, FaultKind)
        kind = FaultKind(self.kind)
        if self.times is not None and self.times < 1:
            raise UsageError(f"a fault happens at least once, not {self.times} times")
        if self.status is not None and self.status not in kind.statuses:
            allowed = f"{kind.statuses[0]} to {kind.statuses[-1]}" if kind.statuses else "it has none to choose"
            raise UsageError(f"{self.status} is not a status of {kind} ({allowed})")
        if self.seconds is not None and self.seconds < 1:
            raise UsageError(f"seconds are counted from one, not {self.seconds}")
        if not 0 < self.probability <= 1:
            raise UsageError(f"a probability is above 0 and at most 1, not {self.probability:g}")
        if self.for_s is not None and self.for_s < 1:
            raise UsageError(f"a fault lasts at least a second, not {self.for_s}")
        bounded = self.for_s is not None or self.probability < 1 or kind is FaultKind.DATE_SHIFTED
        return FaultRow(
            id=str(uuid4()),
            kind=kind,
            machine=self.machine,
            times=self.times if self.times is not None else 0 if bounded else 1,
            method=self.method.upper(),
            path=self.path,
            status=next(iter(kind.statuses), 0) if self.status is None else self.status,
            seconds=kind.seconds if self.seconds is None else self.seconds,
            probability=self.probability,
            seed=self.seed,
            until=now(plus_s=self.for_s) if self.for_s is not None else "",
        )


class Faults:
    """The rules, in the world's store, so that they outlive the server.

    They are read once: the server is the only one that has the store open, and every call asks for many kinds.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows = {row.id: row for row in store.find(FaultRow)}

    def add(self, order: FaultOrder) -> FaultRow:
        """Order a fault.

        Raises:
            UsageError: Unknown kind, or a figure out of range.
        """
        row = order.to_row()
        self._store.add(row)
        self._rows[row.id] = row
        return row

    def waiting(self) -> list[FaultRow]:
        """The faults that may still happen, in order."""
        timestamp = now()
        for row in [row for row in self._rows.values() if row.until and row.until <= timestamp]:
            self._drop(row)
        return list(self._rows.values())

    def waits(self, kind: FaultKind) -> bool:
        """Whether a fault of that kind may still happen to anybody."""
        return any(row.kind == kind for row in self.waiting())

    def shortest_silence(self) -> int | None:
        """Seconds of the shortest silence to be cut; ``None`` without such a fault."""
        return min((row.seconds for row in self.waiting() if row.kind == FaultKind.SILENCE_CUT), default=None)

    def clear(self) -> int:
        """Remove all faults; return their number."""
        rows = self.waiting()
        for row in rows:
            self._drop(row)
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
        """Apply a waiting fault now, if there is one, and count it.

        Args:
            machine: The machine's id, name and slug; empty when the call is about none.
            path: Of the call, below ``/api/v1``.
        """
        if not self._rows:
            return None
        for row in self.waiting():
            if row.kind != kind or (row.machine and row.machine not in machine):
                continue
            if (row.method and row.method != method) or not _begins(row.path).match(path) or silent_s < row.seconds:
                continue
            if self._strikes(row):
                return row
        return None

    def _strikes(self, row: FaultRow) -> bool:
        """Draw, and count the draw and the strike."""
        probability = row.probability or 1.0
        # Of seed and count only, so that a run can be repeated, and a restarted server goes on where the last one was.
        drawn = random.Random(f"{row.seed}:{row.draws}").random()  # noqa: S311 - repeatable on purpose
        strikes = drawn < probability
        if strikes and row.times == 1:
            self._drop(row)
            return True
        left = row.times - 1 if strikes and row.times else row.times
        self._rows[row.id] = replace(row, draws=row.draws + 1, times=left)
        self._store.update(FaultRow, row.id, draws=row.draws + 1, times=left)
        return strikes

    def _drop(self, row: FaultRow) -> None:
        del self._rows[row.id]
        self._store.remove(FaultRow, row.id)


@functools.lru_cache(maxsize=256)
def _begins(pattern: str) -> re.Pattern[str]:
    return re.compile("[^/]*".join(re.escape(part) for part in pattern.split("*")))
