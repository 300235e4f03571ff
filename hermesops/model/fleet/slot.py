"""Releases on a machine, as hermes-node reports them: slots, the present switch, the last one. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hermesops.model.rollout.release import ReleaseId
from hermesops.wire.foreign_text import one_line

BLOBS = "/opt/hermes/blobs/incoming"
"""Folder on a machine for uploaded files of releases, each named by its SHA-256."""

_NAMED, _NAME = 50, 120

_DEFAULT_PYTHON = "3.11"
"""Of the images' distribution, for a hermes-node that does not report it."""


@dataclass(frozen=True)
class Switch:
    """A switch to another release that is not confirmed yet.

    Attributes:
        before: The one that the machine returns to without confirmation.
        phase: As hermes-node names it.
    """

    release: ReleaseId
    before: ReleaseId
    phase: str


@dataclass(frozen=True)
class Switched:
    """The result of the last switch of slots.

    Attributes:
        outcome: ``confirmed``, ``rolled_back``, ``failed``, or ``confirm_timed_out``.
        at: By the machine's clock.
    """

    release: ReleaseId
    before: ReleaseId
    outcome: str
    why: str
    at: str


@dataclass(frozen=True)
class SlotsState:
    """The releases on one machine.

    Attributes:
        current: The one that runs; empty where there is none.
        python: The machine's Python, as ``3.11``.
        busy: What the agent is doing; empty for nothing or unknown. Idle open connections do not count.
        is_activity_unknown: Whether its gateway runs and does not report what it is doing.
    """

    current: ReleaseId
    slots: tuple[ReleaseId, ...] = ()
    switch: Switch | None = None
    last: Switched | None = None
    python: str = _DEFAULT_PYTHON
    busy: str = ""
    is_activity_unknown: bool = False

    @property
    def before(self) -> ReleaseId | None:
        """The release of a rollback: the present one after a rollback; ``None`` where it must be named.

        The machine may have lost its slot.
        """
        if self.switch is not None:
            return self.switch.before
        if self.last is not None and self.last.before == self.current:
            return self.current
        if self.last is not None and self.last.release == self.current and self.last.before:
            return self.last.before
        others = [slot for slot in self.slots if slot != self.current]
        return others[0] if len(others) == 1 else None

    @classmethod
    def from_status(cls, status: Mapping[str, Any]) -> Self:
        """Parse the JSON object that hermes-node's ``status`` prints."""
        releases = status.get("releases") or {}
        switch, last = releases.get("activation"), releases.get("last")
        return cls(
            _release(releases.get("current")),
            tuple(map(_release, releases.get("slots") or ())),
            Switch(_release(switch.get("to")), _release(switch.get("from")), str(switch.get("phase") or ""))
            if switch
            else None,
            Switched(
                _release(last.get("to")),
                _release(last.get("from")),
                str(last.get("outcome") or ""),
                str(last.get("why") or ""),
                str(last.get("at") or ""),
            )
            if last
            else None,
            str(releases.get("python") or _DEFAULT_PYTHON),
            _runs((status.get("busy") or {}).get("runs")),
            _is_activity_unknown(status),
        )


@dataclass(frozen=True)
class Check:
    """One check that hermes-node made before it opened the gateway."""

    name: str
    ok: bool
    detail: str

    @classmethod
    def all_from(cls, rows: Sequence[Mapping[str, Any]]) -> "tuple[Check, ...]":
        """Parse the checks of an answer of hermes-node."""
        return tuple(cls(str(row.get("name")), bool(row.get("ok")), str(row.get("detail") or "")) for row in rows)


@dataclass(frozen=True)
class Activation:
    """The result of an activation of a release.

    Attributes:
        problem: Why the machine is on its old release; empty when it is on the new one.
        stage: The part of the work that failed.
        rollback_method: ``in_place`` where the old release can run on the state of the new one, else ``copy``.
    """

    release: ReleaseId
    problem: str = ""
    stage: str = ""
    checks: tuple[Check, ...] = ()
    rollback_method: str = ""

    @classmethod
    def from_told(cls, release: ReleaseId, result: Mapping[str, Any]) -> Self:
        """Read the last line that ``release activate`` prints."""
        return cls(
            release,
            str(result.get("error") or ""),
            str(result.get("stage") or ""),
            Check.all_from(result.get("checks") or ()),
            str(result.get("rollback_method") or ""),
        )


@dataclass(frozen=True)
class RollbackResult:
    """The result of a rollback to another slot.

    Attributes:
        gap_s: Seconds for which the gateway did not answer.
        migrated: Rows written since that are in the present state.
        listed: Rows written since that are not, and are listed in a file beside the newer state.
        kept: Where the newer state is kept on the machine; empty where it stays in use.
        settings_migrated: Settings that the user changed under the newer release and that are in force.
        settings_lost: Names of those that are not; they are in the newer configuration on the machine.
    """

    release: ReleaseId
    before: ReleaseId
    gap_s: float
    migrated: int
    listed: int
    kept: str
    settings_migrated: int = 0
    settings_lost: tuple[str, ...] = ()

    @classmethod
    def from_told(cls, result: Mapping[str, Any]) -> Self:
        """Parse the JSON object that ``release rollback`` prints."""
        return cls(
            _release(result.get("release")),
            _release(result.get("from")),
            float(result.get("gap_s") or 0),
            int(result.get("migrated") or 0),
            int(result.get("listed") or 0),
            str(result.get("kept") or ""),
            int(result.get("settings_migrated") or 0),
            _settings(result.get("settings_lost", [])),
        )


def _settings(names: object) -> tuple[str, ...]:
    """Names of settings, which are a user's own text; an older hermes-node sends none.

    Raises:
        TypeError: It is no list. An answer that is not understood does not mean that nothing is lost.
    """
    if not isinstance(names, list):
        raise TypeError("settings_lost is no list")
    return tuple(one_line(str(name))[:_NAME] for name in names[:_NAMED])


def _is_activity_unknown(status: Mapping[str, Any]) -> bool:
    runs = (status.get("gateway") or {}).get("state") == "active" and bool(status.get("identity"))
    return runs and "busy" in status and status["busy"] is None


def _runs(count: object) -> str:
    if not isinstance(count, int) or count < 1:
        return ""
    return "1 run" if count == 1 else f"{count} runs"


def _release(name: object) -> ReleaseId:
    return ReleaseId(str(name or ""))
