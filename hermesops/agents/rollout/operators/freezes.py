"""Freezes: spans of time in which no rollout goes on."""

from dataclasses import dataclass
from datetime import datetime

from hermesops.errors import Hint, Parameter, UsageError
from hermesops.model.rollout.records import Freeze, Rollout
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.rollouts.freezes import meant_by, refuse_without_effect


@dataclass(frozen=True)
class Freezes:
    """Sets, lifts and lists freezes of one environment."""

    registry: Registry

    def list(self, *, past: bool = False) -> tuple[Freeze, ...]:
        """Present and future freezes, with ``past`` also those before, the earliest first."""
        return self.registry.freezes.list(past=past)

    def set(self, *, begins_at: datetime | None, ends_at: datetime | None, reason: str) -> Freeze:
        """Freeze rollouts from ``begins_at`` (``None``: now) to ``ends_at`` (``None``: until it is lifted).

        Raises:
            UsageError: There is no reason, it ends before it begins, or it has ended already.
        """
        if not reason.strip():
            raise UsageError(
                "a freeze needs a reason: others have to wait for it", hint=Hint(Parameter("reason", "'quarter end'"))
            )
        return self.registry.freezes.set(begins_at=begins_at, ends_at=ends_at, reason=reason)

    def preview_set(self, *, begins_at: datetime | None, ends_at: datetime | None) -> tuple[Rollout, ...]:
        """The unfinished rollouts that ``set`` would stop.

        Raises:
            UsageError: It ends before it begins, or has ended already.
        """
        now = self.registry.now()
        refuse_without_effect(begins_at or now, ends_at, now)
        return tuple(self.registry.rollouts.list(unfinished=True))

    def preview_lift(self, freeze_id: str) -> tuple[Rollout, ...]:
        """The unfinished rollouts; after ``lift`` they continue, unless another freeze holds. Raises as it does."""
        meant_by(freeze_id, {freeze.id: freeze for freeze in self.list(past=True)}, self.registry.now())
        return tuple(self.registry.rollouts.list(unfinished=True))

    def lift(self, freeze_id: str, *, reason: str = "") -> Freeze:
        """End a freeze now, by its id or an unambiguous beginning of it; safe to call twice.

        Args:
            freeze_id: Empty for the only one that holds or is to come.

        Raises:
            UsageError: There is none of that id, or more than one.
        """
        return self.registry.freezes.lift(freeze_id, why=reason or "lifted")
