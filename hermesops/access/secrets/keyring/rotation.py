"""Rotates the registry's key without downtime; every step is derived from observed state, so it may be killed anywhere.

The registry says which key seals; the ring has the keys. A key is added to the ring, then the registry changes to it,
then values of older keys are sealed again, and last these keys are retired.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from hermesops.access.secrets.keyring.key_ring import parse_ring
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.base.narration import counted
from hermesops.errors import RefusedError
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Add:
    """Put a new key into the ring; nothing is sealed with it yet."""


@dataclass(frozen=True)
class Change:
    """Let the registry seal with this key from now on."""

    key: str


@dataclass(frozen=True)
class Reseal:
    """Seal values of other keys again."""


@dataclass(frozen=True)
class Settle:
    """Retire all keys but this one, and delete those that no copy needs: the end of a rotation."""

    key: str


Step = Add | Change | Reseal | Settle


def next_step(ring: Ring, sealing: str, left: int, *, source: str = "the ring") -> Step:
    """Choose the next step of a rotation. Pure.

    ``sealing`` is the key that the registry seals with, ``left`` how many values another key sealed.

    Raises:
        RefusedError: The registry's key is not at hand here.
    """
    if sealing not in ring.keys:
        raise RefusedError(
            f"the registry is sealed with key {sealing}, which is not in {source}",
            hint=f"copy {source} from the computer that rotated it last",
        )
    if sealing in ring.retired:  # the registry was restored from a copy of before a rotation
        return Change(ring.current)
    if left:
        return Reseal()
    if sealing != ring.current:
        return Settle(sealing)
    return Change(ring.prepared) if ring.prepared else Add()


@dataclass(frozen=True)
class RotationPreview:
    """The state of the registry's key before a rotation.

    Attributes:
        sealing: Id of the key that seals now.
        prepared: Id of a key of the ring that seals nothing yet; empty for none.
        left: Values that another key sealed: a rotation was interrupted.
    """

    sealing: str
    prepared: str
    left: int


class KeyRotation:
    """One rotation of the registry's key.

    Args:
        write: Replaces the ring's text, whole or not at all.
        source: Place of the ring, for people.
        needed_since: Returns the time of the oldest copy that may still be restored; ``None`` for no copy.
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
        report: Callable[[str], None],
    ) -> None:
        self._registry = registry
        self._read = read
        self._write = write
        self._source = source
        self._now = now
        self._needed_since = needed_since
        self._report = report

    def prepare(self) -> str:
        """Only add a new key to the ring, unless it has one that has sealed nothing; its id.

        For computers with rings of their own: they get the key before anything is sealed with it.
        """
        ring = self._ring()
        if not ring.prepared:
            self._write(ring.with_new().to_text())
        return self._ring().prepared

    def preview(self) -> RotationPreview:
        """The state from which a rotation begins or continues; raises as ``next_step``, and changes nothing."""
        ring, sealing, left = self._ring(), self._registry.sealing.key(), self._registry.sealing.count_otherwise()
        next_step(ring, sealing, left, source=self._source)
        return RotationPreview(sealing, ring.prepared, left)

    def run(self, *, why: str) -> str:
        """Rotate, or finish an interrupted rotation; returns the key that seals now.

        The caller makes sure that only one rotation runs.

        Raises:
            RefusedError: A value does not open, or the ring cannot be written; the same command continues.
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
                self._report("adding a key")
                self._write(self._ring().with_new().to_text())
            case Change(key):
                self._report(f"new values are sealed with key {key} from now on")
                self._registry.sealing.use(key, why=why)
            case Reseal():
                done = 0
                while count := self._registry.sealing.reseal():
                    done += count
                    self._report(f"resealed {counted(done, 'value')}")
            case Settle(key):
                self._registry.sealing.record_resealed(why=why)
                ring = self._ring().settled_on(key, self._now()).without_retired(self._needed_since())
                self._write(ring.to_text())
                retired = ", ".join(sorted(ring.retired))
                self._report(
                    f"keys kept for older copies of the registry: {retired}" if retired else "older keys are deleted"
                )

    def _ring(self) -> Ring:
        return parse_ring(self._read(), self._source)
