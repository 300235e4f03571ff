"""Who has an older lease than the machine has seen changes nothing on it."""

import json
from pathlib import Path

import pytest

from hermesops.programs.node.instance import fencing
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.wire.errors import BadRequestError, OutrankedError, RefusedError
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import FencingToken
from tests.support.suite.cases import each_case

OURS = "instance/i-1"


def token(epoch: int, counter: int, *, subject: str = OURS, holder: str = "host:7:ab") -> FencingToken:
    return FencingToken(subject, epoch, counter, holder)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "etc/hermes-node").mkdir(parents=True)
    layout = Layout(tmp_path)
    return Machine(layout, slots=DiskSlots(layout))


def personalised(machine: Machine, instance: str) -> None:
    identity = {"instance": instance, "user": "u", "plan": "light", "cell": "c", "epoch": 1}
    machine.layout.identity.write_text(json.dumps(identity))


@pytest.mark.parametrize("newer", [token(1, 5), token(1, 6), token(2, 1)])
def test_the_same_lease_and_newer_ones_are_let_through_and_remembered(machine: Machine, newer: FencingToken) -> None:
    fencing.admit(machine, token(1, 5))
    fencing.admit(machine, newer)
    assert fencing.highest_token(machine) == newer
    assert machine.layout.lease.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("older", [token(1, 4), token(0, 99)])
def test_an_older_lease_is_refused_and_told_who_took_over(machine: Machine, older: FencingToken) -> None:
    fencing.admit(machine, token(1, 5, holder="worker:9:cd"))
    with pytest.raises(OutrankedError, match=r"worker:9:cd holds 1\.5"):
        fencing.admit(machine, older)
    assert fencing.highest_token(machine) == token(1, 5, holder="worker:9:cd")


def test_a_hermesops_of_before_leases_is_let_through_and_forgets_nothing(machine: Machine) -> None:
    fencing.admit(machine, token(1, 5))
    fencing.admit(machine, None)
    assert fencing.highest_token(machine) == token(1, 5)


def test_a_machine_takes_no_lease_of_another_instance(machine: Machine) -> None:
    personalised(machine, "i-1")
    fencing.admit(machine, token(1, 5))
    with pytest.raises(RefusedError, match="instance/i-1's"):
        fencing.admit(machine, token(9, 9, subject="instance/i-2"))


def test_a_machine_that_becomes_anothers_counts_by_its_leases(machine: Machine) -> None:
    personalised(machine, "i-1")
    fencing.admit(machine, token(1, 5))
    fencing.admit(machine, token(1, 1, subject="instance/i-2"), replaces=True)
    assert fencing.highest_token(machine) == token(1, 1, subject="instance/i-2")


def test_a_damaged_note_is_replaced(machine: Machine) -> None:
    machine.layout.lease.write_text('{"subject": "instance/i-1"')
    fencing.admit(machine, token(1, 5))
    assert fencing.highest_token(machine) == token(1, 5)


def test_a_token_reads_as_it_was_written() -> None:
    assert FencingToken.parse(str(token(3, 17))) == token(3, 17)


@each_case("text", ["", "3", "3.17", "3.17,instance/x", "-1.2,a,b", "3.17,a b,c", "3.17,a,b;c"])
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="not of the form EPOCH"):
        FencingToken.parse(text)
