"""What is done next about a machine."""

import itertools
from dataclasses import replace
from typing import Any

from hermesops.localcloud.drivers.interface import MachinePower
from hermesops.localcloud.fleet.steps import Step, next_step
from hermesops.localcloud.store.rows import MachineRow, MachineStatus, Wanted
from tests.support.suite.cases import each_case

ROW = MachineRow(
    id="id",
    number=1,
    slug="m-1",
    name="edge",
    server_type="starter",
    region="hel1",
    image_id=None,
    created_at="2026-01-01T00:00:00Z",
    private_key="",
    public_key="",
    daemon_token="",
    machine_token="",
    made=True,
)
RUNNING, STOPPED, BOOTING, ABSENT = (
    MachinePower.RUNNING,
    MachinePower.STOPPED,
    MachinePower.BOOTING,
    MachinePower.ABSENT,
)


@each_case(
    ("changes", "power", "answers", "step"),
    [
        ({"made": False}, ABSENT, False, Step.CREATE),
        ({"made": False}, RUNNING, True, Step.CREATE),
        ({}, BOOTING, False, Step.AWAIT),
        ({}, RUNNING, False, Step.AWAIT),
        ({}, RUNNING, True, Step.RECORD_READY),
        ({"status": MachineStatus.ERROR}, RUNNING, True, Step.RECORD_READY),
        ({"status": MachineStatus.READY}, RUNNING, True, Step.REST),
        ({"status": MachineStatus.STOPPED}, STOPPED, False, Step.START),
        ({"status": MachineStatus.PROVISIONING}, STOPPED, False, Step.START),
        ({"status": MachineStatus.READY}, STOPPED, False, Step.RECORD_OFF),
        ({"status": MachineStatus.READY, "reboot": True}, STOPPED, False, Step.START),
        ({"status": MachineStatus.READY, "reboot": True}, RUNNING, True, Step.REBOOT),
        ({"status": MachineStatus.READY, "wanted": Wanted.STOPPED}, RUNNING, True, Step.STOP),
        ({"status": MachineStatus.READY, "wanted": Wanted.STOPPED}, STOPPED, False, Step.RECORD_STOPPED),
        ({"status": MachineStatus.STOPPED, "wanted": Wanted.STOPPED}, STOPPED, False, Step.REST),
        ({"status": MachineStatus.READY, "resize": "basic"}, RUNNING, True, Step.RESIZE),
        ({"status": MachineStatus.STOPPED, "resize": "basic", "wanted": Wanted.STOPPED}, STOPPED, False, Step.RESIZE),
        ({"status": MachineStatus.READY, "restore": "bkp"}, STOPPED, False, Step.RESTORE),
        ({"status": MachineStatus.READY, "restore": "bkp"}, ABSENT, False, Step.RECORD_LOST),
        ({"status": MachineStatus.READY}, ABSENT, False, Step.RECORD_LOST),
        ({"status": MachineStatus.ERROR}, ABSENT, False, Step.REST),
    ],
)
def test_the_next_step_follows_from_what_is_seen(
    changes: dict[str, Any],
    power: MachinePower,
    answers: bool,  # noqa: FBT001 - a column of the table
    step: Step,
) -> None:
    assert next_step(replace(ROW, **changes), power, answers=answers) is step


def test_a_machine_whose_disk_is_lost_is_never_made_anew() -> None:
    for status, wanted, reboot in itertools.product(MachineStatus, (Wanted.RUNNING, Wanted.STOPPED), (True, False)):
        row = replace(ROW, status=status, wanted=wanted, reboot=reboot)
        assert next_step(row, ABSENT, answers=False) in {Step.REST, Step.RECORD_LOST}


def test_a_deleted_machine_is_removed_whatever_it_does() -> None:
    for is_made, power in itertools.product((True, False), MachinePower):
        row = replace(ROW, wanted=Wanted.DELETED, made=is_made)
        assert next_step(row, power, answers=True) is Step.REMOVE
