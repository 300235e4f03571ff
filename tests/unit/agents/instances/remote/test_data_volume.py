"""What does not fit is refused with the figures, and a machine of before data volumes is left as it is."""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.remote import data_volume
from hermesops.agents.instances.remote.data_volume import DataRoom, refuse_without_room
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.recovery.backup import Backup
from hermesops.vendor.channel import Completed
from hermesops.wire.protocol import GB, PROGRAM
from tests.support.fakes.instances import ADA
from tests.support.worlds.one_user import MEMORY

TAKES_30_GB = Backup("ab" * 32, ADA.id, datetime(2026, 1, 1, tzinfo=UTC), "daily", 30 * GB, 0, MEMORY)


@dataclass
class Node:
    """A machine that answers everything alike."""

    answer: Completed
    heard: list[str] = field(default_factory=list)
    machine_id: str = "m1"

    async def run(self, command: str, *, timeout_s: float) -> Completed:
        assert timeout_s > 0
        self.heard.append(command)
        return self.answer


def node_with(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - what the code asks of a channel is less than one
    return Node(*args, **options)


OF_BEFORE = Completed(2, b"", b"hermes-node: error: argument command: invalid choice: 'volume'")
BROKEN = Completed(4, b"{}", b"hermes-node: /var/lib/hermes: No such file or directory\n")


@pytest.mark.parametrize(
    ("room", "fits"),
    [
        (DataRoom(40 * GB, 0), True),
        (DataRoom(40 * GB, 10 * GB), True),
        (DataRoom(40 * GB, 10 * GB + 1), False),
        (None, True),
    ],
    ids=["empty", "to the last byte", "a byte too many", "nobody knows"],
)
def test_a_backup_that_fits_beside_what_is_there_is_let_through(room: DataRoom | None, *, fits: bool) -> None:
    try:
        refuse_without_room(ADA, TAKES_30_GB, room)
    except RefusedError:
        assert not fits
    else:
        assert fits


def test_one_that_does_not_is_refused_with_the_figures_and_the_way_out() -> None:
    with pytest.raises(RefusedError, match=r"25\.0 GB of 40\.0 GB free") as refused:
        refuse_without_room(ADA, TAKES_30_GB, DataRoom(40 * GB, 15 * GB))
    assert "takes 30.0 GB" in refused.value.message
    assert "25.0 GB of 40.0 GB free" in refused.value.message
    assert str(refused.value.hint) == "hermesops backup restore ada --snapshot abababab --onto-new-machine"


async def test_a_machine_says_how_much_room_it_has() -> None:
    node = node_with(Completed(0, json.dumps({"kind": "open", "size": 40, "used": 30}).encode(), b""))
    assert await data_volume.observe(node) == DataRoom(40, 30)
    assert node.heard == [f"{PROGRAM} volume show"]
    assert DataRoom(40, 50).free == 0


async def test_one_of_before_has_none_to_speak_of_and_is_left_as_it_is() -> None:
    assert await data_volume.observe(node_with(OF_BEFORE)) is None
    await data_volume.want(node_with(OF_BEFORE), 80, None)


async def test_what_a_machine_cannot_say_is_told() -> None:
    for asks in (data_volume.observe(node_with(BROKEN)), data_volume.want(node_with(BROKEN), 80, None)):
        with pytest.raises(UnavailableError, match="No such file"):
            await asks
