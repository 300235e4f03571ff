"""A change of release that is not over, as it is written down: whoever finds it knows how to end it.

It is on the disk before each phase begins. Whoever holds the machine's lock and finds one that is not ``unconfirmed``
has found one whose doer is dead.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from hermesops.node.machine import Machine
from hermesops.node.release.slots.links import current
from hermesops.node.system.files import Access

PRIVATE = Access(0o600)
MONTH_S = 30 * 86400.0
"""How long the newer state is kept after going back, in seconds."""


class Phase(StrEnum):
    """How far it is.

    PREPARED: the way back is laid, and nothing has changed. SWITCHING: the gateway is stopped, and goes over to the
    other slot. UNCONFIRMED: the new release runs. GOING_BACK: it is to be left, whatever happens.
    """

    PREPARED = "prepared"
    SWITCHING = "switching"
    UNCONFIRMED = "unconfirmed"
    GOING_BACK = "going_back"


@dataclass(frozen=True)
class Activation:
    """One.

    Attributes:
        to: The release that is, or was, brought.
        before: The one that is gone back to.
        phase: How far it is.
        kept: Name of the state that is put back; empty where the older release goes on with the newer one's.
        starts: Whether the gateway is to run.
        deadline: Until when it must be confirmed, on the machine's monotonic clock.
        why: What going back is for.
        confirm_timed_out: Whether that is that nobody was there to confirm it, which says nothing of the release.
        answer: What was said when it became unconfirmed.
    """

    to: str
    before: str
    phase: Phase
    kept: str = ""
    starts: bool = True
    deadline: float = 0.0
    why: str = ""
    confirm_timed_out: bool = False
    answer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def rollback_method(self) -> str:
        """In the words of a trial."""
        return "copy" if self.kept else "in_place"


def load(machine: Machine) -> Activation | None:
    """The one that is not over."""
    data = machine.files.read(machine.layout.activation)
    if data is None:
        return None
    try:
        raw = json.loads(data)
        return Activation(**{**raw, "phase": Phase(raw["phase"])})
    except (ValueError, TypeError, KeyError):  # as it is never written: what the links say is all there is
        back = machine.files.link_target(machine.layout.back)
        return Activation(current(machine), back.name if back else current(machine), Phase.GOING_BACK)


def save(machine: Machine, activation: Activation) -> None:
    """Write it down, in this boot."""
    data = json.dumps(asdict(activation), sort_keys=True).encode()
    machine.files.write_if_changed(machine.layout.activation_boot, b"", PRIVATE)
    machine.files.write_if_changed(machine.layout.activation, data, PRIVATE)


def forget(machine: Machine) -> None:
    """It is over."""
    for path in (machine.layout.activation, machine.layout.activation_boot):
        machine.remove(path)


def cancel(machine: Machine) -> dict[str, Any]:
    """Ask that whoever changes the release now gives it up, unless the gateway is being switched already.

    Takes no lock: who is asked holds it. It says itself that it gave up, and whoever asks may do so again.
    """
    machine.files.write_if_changed(machine.layout.activation_cancelled, b"", PRIVATE)
    return {"cancelled": True}


def is_cancelled(machine: Machine) -> bool:
    """Whether somebody has asked for that since the change began."""
    return machine.files.read(machine.layout.activation_cancelled) is not None


def is_of_this_boot(machine: Machine) -> bool:
    """Whether the machine has not been rebooted since it was written down."""
    return machine.files.read(machine.layout.activation_boot) is not None


def is_due(machine: Machine, activation: Activation) -> bool:
    """Whether nobody may confirm it any more."""
    return (
        activation.phase is not Phase.UNCONFIRMED
        or not is_of_this_boot(machine)
        or machine.system.monotonic() >= activation.deadline
    )


@dataclass(frozen=True)
class History:
    """What is remembered of changes that are over.

    Attributes:
        last: What came of the last one.
        before: The release that ran before this one, and the state that is put back with it; empty where none.
        kept: Name of that state.
        order: Releases by when they last began to run, the latest first.
    """

    last: Mapping[str, Any] | None = None
    before: str = ""
    kept: str = ""
    order: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """As it is kept."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def history(machine: Machine) -> History:
    """What is remembered."""
    data = machine.files.read(machine.layout.release_history)
    try:
        raw = json.loads(data or b"{}")
        return History(**{**raw, "order": tuple(raw.get("order", ()))})
    except (ValueError, TypeError):
        return History()
