"""An orphan goes to the instance it says it is, or is destroyed; a user's only memory is not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hermesops.agents.drift.machine_identity import Forgotten
from hermesops.agents.drift.orphans import Holder, Recover, Take, adoption, chosen, doubt_of, refuse_removal, rivals_of
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.recovery.recovered import Recovered
from tests.support.fleets.in_memory import machine_for, ordered, recovered
from tests.support.suite.cases import each_case

NAME = MachineName("hermes-local-cell1-ffffffffffff")
NOBODYS = Forgotten(MachineId("m-x"), NAME, "it reports no instance", is_nobodys=True)
SILENT = Forgotten(MachineId("m-x"), NAME, "no answer")


def holder(*, has_machine: bool = False, **changes: Any) -> Holder:  # noqa: ANN401 - any field of an instance
    return Holder(ordered(0, **changes).instance, has_machine)


def test_an_instance_without_a_row_comes_back_and_one_without_a_machine_takes_it() -> None:
    claim = recovered(0)
    assert adoption(claim, None) == Recover(claim)
    assert adoption(claim, holder()) == Take(claim.id, claim)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (holder(status=InstanceStatus.TERMINATED), "is terminated"),
        (holder(has_machine=True), "is on machine"),
        (holder(epoch=2), "the memory on that machine is older"),
    ],
)
def test_an_orphan_that_its_instance_needs_no_more_is_not_adopted(held: Holder, words: str) -> None:
    with pytest.raises(RefusedError, match=words) as refused:
        adoption(recovered(0), held)
    assert "fleet repair remove-orphan" in str(refused.value.hint)


@pytest.mark.parametrize("do", [adoption, refuse_removal])
def test_an_orphan_of_a_later_epoch_than_its_instances_row_is_neither_adopted_nor_removed(
    do: Callable[[Recovered, Holder], object],
) -> None:
    """A registry restored from an older copy does not know of the last change of machines."""
    with pytest.raises(RefusedError, match="may be newer") as refused:
        do(replace(recovered(0), epoch=2), holder(has_machine=True))
    assert "--forget" in str(refused.value.hint)


def test_a_machine_that_is_nobodys_or_does_not_say_is_not_adopted() -> None:
    with pytest.raises(RefusedError, match="reports no instance"):
        adoption(NOBODYS, None)
    with pytest.raises(UnavailableError, match="is unknown"):
        adoption(SILENT, None)


@each_case(
    ("claim", "held"),
    [
        (NOBODYS, None),
        (recovered(0), holder(status=InstanceStatus.TERMINATED)),
        (recovered(0), holder(has_machine=True)),
        (replace(recovered(0), epoch=2), holder(has_machine=True, status=InstanceStatus.TERMINATED)),
        (recovered(0), replace(holder(has_machine=True, status=InstanceStatus.TERMINATED), machine_doubt="silent")),
    ],
)
def test_what_nobody_would_miss_may_be_removed(claim: Any, held: Holder | None) -> None:  # noqa: ANN401 - either
    output = ""
    try:
        refuse_removal(claim, held)
    except RefusedError as error:
        output = error.message
    assert output == ""


@pytest.mark.parametrize(
    ("claim", "held", "words"),
    [
        (SILENT, None, "the owner of the memory on"),
        (recovered(0), None, "on no other machine"),
        (recovered(0), holder(), "on no other machine"),
    ],
)
def test_what_is_or_may_be_a_users_only_memory_is_kept(
    claim: Any,  # noqa: ANN401 - either
    held: Holder | None,
    words: str,
) -> None:
    with pytest.raises(RefusedError, match=words) as refused:
        refuse_removal(claim, held)
    assert "--forget" in str(refused.value.hint)


DOUBTFUL = replace(recovered(0), doubt="its token is of another")


@pytest.mark.parametrize(
    ("recovered", "rivals", "words"),
    [
        (DOUBTFUL, [], "its token is of another"),
        (
            recovered(0),
            [replace(recovered(0), epoch=2, machine_name=NAME)],
            rf"others report the same: {NAME} \(epoch 2",
        ),
    ],
)
@pytest.mark.parametrize("held", [None, holder()])
def test_a_contested_orphan_is_adopted_only_where_a_person_says_that_it_is_the_right_one(
    recovered: Recovered, rivals: list[Recovered], words: str, held: Holder | None
) -> None:
    with pytest.raises(RefusedError, match=words) as refused:
        adoption(recovered, held, rivals=rivals)
    assert "--contested" in str(refused.value.hint)
    assert isinstance(adoption(recovered, held, contested=True), Recover if held is None else Take)


def test_the_true_machine_is_kept_while_the_one_of_the_row_does_not_prove_that_it_is_the_instances() -> None:
    """A liar with a higher epoch was believed before: its row must not be the reason to destroy the true one."""
    liar_holds = replace(holder(has_machine=True, epoch=2), machine_doubt="its token is of another")
    with pytest.raises(RefusedError, match="does not prove the same: its token is of another") as refused:
        refuse_removal(recovered(0), liar_holds)
    assert "compare both machines first" in str(refused.value.hint)
    assert "--forget" in str(refused.value.hint)


def test_an_orphan_is_meant_by_its_name_and_by_its_id_where_two_have_it() -> None:
    first = machine_for(ordered(1), id="m-1", name=NAME)
    second = machine_for(ordered(1), id="m-2", name=NAME)
    assert chosen([first], NAME, "") is first
    assert chosen([first, second], NAME, "m-2") is second
    with pytest.raises(UsageError, match=r"m-1, m-2"):
        chosen([first, second], NAME, "")
    with pytest.raises(UsageError, match=f"no orphan .*; nearest: {NAME}"):
        chosen([first], f"{NAME}0", "")


def test_an_older_memory_is_told_by_its_epoch_only() -> None:
    assert isinstance(adoption(replace(recovered(0), epoch=3), holder(epoch=2)), Take)


def test_orphans_that_claim_the_same_instance_or_user_are_rivals_of_each_other() -> None:
    claim, twin, other = recovered(0), replace(recovered(0), machine_id=MachineId("m-9")), recovered(1)
    same_user = replace(other, user_id=claim.user_id)
    assert rivals_of(claim, [claim, twin, other, SILENT]) == [twin]
    assert rivals_of(claim, [same_user]) == [same_user]


def test_a_machine_is_doubted_that_is_silent_proves_nothing_or_is_another_instance() -> None:
    claim = recovered(0)
    assert doubt_of(claim, claim.id) == ""
    assert doubt_of(replace(claim, doubt="its token is forged"), claim.id) == "its token is forged"
    assert doubt_of(claim, recovered(1).id) == f"it reports instance {claim.id}"
    assert isinstance(SILENT, Forgotten)
    assert doubt_of(SILENT, claim.id) == SILENT.why
