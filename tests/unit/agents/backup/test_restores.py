"""A restore that is under way is continued, unless another backup was named."""

from typing import Any

import pytest

from hermesops.agents.backup.restores import RestoreRequest, Restores
from hermesops.errors import RefusedError, UsageError
from hermesops.model.operation import OperationKind
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part

NEWEST: Any = part(id="b" * 64)


def under_way(snapshot: str, calls: list[dict[str, object]] | None = None) -> Restores:
    """A restore of this backup has not ended; whatever is asked for finds it."""
    operation = part(id="o-1", kind=OperationKind.RESTORE, intent={"snapshot": snapshot})

    async def found(*what: object, **how: object) -> object:
        if calls is not None:
            calls.append({"what": what, **how})
        return operation

    return Restores(part(open_restore=found), part(restore=found))


@pytest.mark.parametrize("onto_new_machine", [False, True])
async def test_a_named_backup_is_not_taken_for_the_one_that_is_being_restored(onto_new_machine: bool) -> None:  # noqa: FBT001 - a case
    named = RestoreRequest("ada", ADA, NEWEST, is_named=True, is_onto_new_machine=onto_new_machine)
    with pytest.raises(RefusedError, match=r"o-1 .* has not ended"):
        await under_way("a" * 64).open(named)
    assert (await under_way("b" * 64).open(named)).id == "o-1"
    unnamed = RestoreRequest("ada", ADA, NEWEST, is_onto_new_machine=onto_new_machine)
    assert (await under_way("a" * 64).open(unnamed)).id == "o-1"


async def test_a_damaged_state_is_not_backed_up_first() -> None:
    documents: list[dict[str, object]] = []
    for is_damaged in (False, True):
        await under_way("b" * 64, documents).open(RestoreRequest("ada", ADA, NEWEST, "why", is_damaged=is_damaged))
    await under_way("b" * 64, documents).open(RestoreRequest("ada", ADA, NEWEST, is_onto_new_machine=True))
    assert documents == [
        {"what": (ADA, NEWEST), "keeps": True, "reason": "why"},
        {"what": (ADA, NEWEST), "keeps": False, "reason": "why"},
        {"what": ("ada",), "snapshot": "b" * 64, "reason": "restore"},
    ]


def test_a_state_on_a_machine_that_is_left_is_not_called_damaged() -> None:
    with pytest.raises(UsageError, match="a damaged state is on the current machine"):
        RestoreRequest("ada", ADA, NEWEST, is_damaged=True, is_onto_new_machine=True)
