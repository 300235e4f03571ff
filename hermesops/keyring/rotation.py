"""Rotates the registry's key while everybody goes on working: decided from what is there, so it may be killed anywhere.

The registry says which key seals; the ring says which are at hand. A key is added to the ring, then the registry
changes to it at one moment, then what older keys sealed is sealed anew, and at last they are retired.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hermesops.errors import RefusedError
from hermesops.keyring.key_ring import parse_ring
from hermesops.keyring.ring import Ring
from hermesops.registry import Registry


@dataclass(frozen=True)
class Add:
    """Put a new key into the ring; nothing is sealed with it yet."""


@dataclass(frozen=True)
class Change:
    """Let the registry seal with this key from now on."""

    key: str


@dataclass(frozen=True)
class Reseal:
    """Seal anew what other keys sealed."""


@dataclass(frozen=True)
class Settle:
    """Retire all other keys than this one, and forget those that nobody needs: the end of a rotation."""

    key: str


Step = Add | Change | Reseal | Settle


def next_step(ring: Ring, sealing: str, left: int, *, source: str = "the ring") -> Step:
    """What a rotation does next. Pure.

    Args:
        ring: The keys at hand.
        sealing: The key that the registry seals with.
        left: How many values another key sealed.
        source: Where the ring is kept, for people.

    Raises:
        RefusedError: The registry's key is not at hand here.
    """
    if sealing not in ring.keys:
        raise RefusedError(
            f"the registry is sealed with key {sealing}, which is not in {source}",
            hint=f"copy {source} from the computer that rotated it last",
        )
    if sealing in ring.retired:  # a copy of the registry from before a rotation was put back
        return Change(ring.current)
    if left:
        return Reseal()
    if sealing != ring.current:
        return Settle(sealing)
    return Change(ring.prepared) if ring.prepared else Add()


class KeyRotation:
    """One rotation.

    Args:
        registry: The registry.
        read: Reads the ring's text.
        write: Keeps another one, whole or not at all.
        source: Where it is kept, for people.
        now: What time it is.
        needed_since: When the oldest copy of the registry was taken that somebody may still want back; ``None``
            where there is none.
        tell: Takes narration.
    """

    def __init__(
        self,
        registry: Registry,
        read: Callable[[], str],
        write: Callable[[str], None],
        *,
        source: str,
        now: Callable[[], datetime],
        needed_since: Callable[[], datetime | None],
        tell: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._read = read
        self._write = write
        self._source = source
        self._now = now
        self._needed_since = needed_since
        self._tell = tell

    def prepare(self) -> str:
        """Only put a new key into the ring, unless there is one that has sealed nothing; its id.

        For when other computers have rings of their own: they are given it before anything is sealed with it.
        """
        ring = self._ring()
        if not ring.prepared:
            self._write(ring.with_new().to_text())
        return self._ring().prepared

    def run(self, *, why: str) -> str:
        """Rotate, or end a rotation that was cut short; the key that seals now.

        The caller sees to it that nobody else rotates meanwhile.

        Raises:
            RefusedError: Something does not open, or the ring cannot be written; the same command continues.
        """
        while True:
            step = next_step(
                self._ring(),
                self._registry.sealing.key(),
                self._registry.sealing.count_otherwise(),
                source=self._source,
            )
            self._do(step, why)
            if isinstance(step, Settle):
                return step.key

    def _do(self, step: Step, why: str) -> None:
        match step:
            case Add():
                self._tell("adding a key")
                self._write(self._ring().with_new().to_text())
            case Change(key):
                self._tell(f"everything is sealed with key {key} from now on")
                self._registry.sealing.use(key, why=why)
            case Reseal():
                done = 0
                while count := self._registry.sealing.reseal():
                    done += count
                    self._tell(f"sealed {done} values anew")
            case Settle(key):
                self._registry.sealing.record_resealed(why=why)
                ring = self._ring().settled_on(key, self._now()).without_retired(self._needed_since())
                self._write(ring.to_text())
                kept = ", ".join(sorted(ring.retired))
                self._tell(f"kept for older copies of the registry: {kept}" if kept else "older keys are forgotten")

    def _ring(self) -> Ring:
        return parse_ring(self._read(), self._source)
