"""The record of an unfinished change of release, by which any process can finish it.

It is on the disk before each phase begins. Under the machine's lock, a record that is not ``unconfirmed`` means that
the process that wrote it is dead.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.slot import current
from hermesops.programs.node.system.files import PRIVATE


class Phase(StrEnum):
    """The phase of a change of release.

    PREPARED: the rollback files are staged, and nothing has changed. SWITCHING: the gateway is stopped, and its slot is
    switched. UNCONFIRMED: the new release runs. GOING_BACK: it is rolled back in any case.
    """

    PREPARED = "prepared"
    SWITCHING = "switching"
    UNCONFIRMED = "unconfirmed"
    GOING_BACK = "going_back"


@dataclass(frozen=True)
class Activation:
    """An unfinished change of release.

    Attributes:
        to: The release that is, or was, activated.
        before: The release to roll back to.
        kept: Name of the state that a rollback puts back; empty where the older release keeps the newer one's.
        deadline: Until when it must be confirmed, on the machine's monotonic clock.
        confirm_timed_out: Whether a missing confirmation is the only reason, which is no fault of the release.
        answer: The answer of ``release activate`` when the release became unconfirmed.
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
        """How it is rolled back; see ``node.ports``."""
        return "copy" if self.kept else "in_place"


def load(machine: Machine) -> Activation | None:
    """The unfinished change of release, if there is one."""
    data = machine.files.read(machine.layout.activation)
    if data is None:
        return None
    try:
        raw = json.loads(data)
        return Activation(**{**raw, "phase": Phase(raw["phase"])})
    except (ValueError, TypeError, KeyError):  # damaged: the links are all there is
        back = machine.files.link_target(machine.layout.back)
        return Activation(current(machine), back.name if back else current(machine), Phase.GOING_BACK)


def save(machine: Machine, activation: Activation) -> None:
    """Write the record, in this boot."""
    data = json.dumps(asdict(activation), sort_keys=True).encode()
    machine.files.write_if_changed(machine.layout.activation_boot, b"", PRIVATE)
    machine.files.write_if_changed(machine.layout.activation, data, PRIVATE)


def forget(machine: Machine) -> None:
    """Remove the record: the change is finished."""
    for path in (machine.layout.activation, machine.layout.activation_boot):
        machine.remove(path)


def cancel(machine: Machine) -> dict[str, Any]:
    """Ask the process that changes the release to give it up, unless it is switching the gateway already.

    Takes no lock: that process holds it, and reports itself that it gave up. May be repeated.
    """
    machine.files.write_if_changed(machine.layout.activation_cancelled, b"", PRIVATE)
    return {"cancelled": True}


def is_cancelled(machine: Machine) -> bool:
    """Whether ``cancel`` was called since the change began."""
    return machine.files.read(machine.layout.activation_cancelled) is not None


def is_of_this_boot(machine: Machine) -> bool:
    """Whether the machine has not been rebooted since the record was written."""
    return machine.files.read(machine.layout.activation_boot) is not None


def is_due(machine: Machine, activation: Activation) -> bool:
    """Whether the change can no longer be confirmed."""
    return (
        activation.phase is not Phase.UNCONFIRMED
        or not is_of_this_boot(machine)
        or machine.system.monotonic() >= activation.deadline
    )


@dataclass(frozen=True)
class History:
    """Finished changes of release.

    Attributes:
        before: The release that ran before this one; empty for none.
        kept: Name of the state that is put back with it.
        order: Releases by when they last began to run, the latest first.
    """

    last: Mapping[str, Any] | None = None
    before: str = ""
    kept: str = ""
    order: tuple[str, ...] = ()

    def to_json(self) -> bytes:
        """The stored form of the history."""
        return json.dumps(asdict(self), sort_keys=True).encode()


def history(machine: Machine) -> History:
    """The stored history; an empty one where it is absent or damaged."""
    data = machine.files.read(machine.layout.release_history)
    try:
        raw = json.loads(data or b"{}")
        return History(**{**raw, "order": tuple(raw.get("order", ()))})
    except (ValueError, TypeError):
        return History()
