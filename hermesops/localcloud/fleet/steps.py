"""What to do next about one machine. Pure: decided from the row and a look at the computer, never from memory."""

from enum import StrEnum

from hermesops.localcloud.drivers.interface import MachinePower
from hermesops.localcloud.store.rows import MachineRow, MachineStatus, Wanted


class Step(StrEnum):
    """One thing to do; ``REST`` when what is wanted holds."""

    REMOVE = "remove"
    CREATE = "create"
    START = "start"
    STOP = "stop"
    REBOOT = "reboot"
    RESIZE = "resize"
    RESTORE = "restore"
    AWAIT = "await"
    CALL_READY = "call_ready"
    CALL_STOPPED = "call_stopped"
    CALL_OFF = "call_off"
    CALL_LOST = "call_lost"
    REST = "rest"


def next_step(row: MachineRow, power: MachinePower, *, answers: bool) -> Step:
    """Decide.

    Args:
        row: What is remembered and wanted.
        power: What the computer shows.
        answers: Whether the machine's daemon does.
    """
    if row.wanted == Wanted.DELETED:
        return Step.REMOVE
    if not row.made:
        return Step.CREATE
    if power is MachinePower.ABSENT:
        # Its disk is gone. Making an empty one under the same id would pass for the machine that held the data.
        return Step.REST if row.status == MachineStatus.ERROR else Step.CALL_LOST
    if row.restore or row.resize:
        return Step.RESTORE if row.restore else Step.RESIZE
    if row.wanted == Wanted.STOPPED:
        if power is not MachinePower.STOPPED:
            return Step.STOP
        return Step.REST if row.status == MachineStatus.STOPPED else Step.CALL_STOPPED
    return _towards_running(row, power, answers=answers)


def _towards_running(row: MachineRow, power: MachinePower, *, answers: bool) -> Step:
    if power is MachinePower.STOPPED:
        # One that was ready powered itself off; nobody starts it again but its owner.
        return Step.CALL_OFF if row.status == MachineStatus.READY and not row.reboot else Step.START
    if row.reboot:
        return Step.REBOOT
    if not answers:
        return Step.AWAIT
    return Step.REST if row.status == MachineStatus.READY else Step.CALL_READY
