import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.base.waiting import WaitExpiredError
from hermesops.vendor.justavps import errors, ordering
from hermesops.vendor.justavps.client import Client
from hermesops.vendor.justavps.wire import Machine, MachineOrder, MachineStatus

ORDER = MachineOrder(name="edge", server_type="starter", region="hel1")
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _machine(machine_id: str, name: str = "edge", *, minutes: int = 0, status: str = "provisioning") -> Machine:
    timestamp = NOON + timedelta(minutes=minutes)
    return Machine.model_validate({"id": machine_id, "name": name, "created_at": timestamp, "status": status})


class Shop(Client):
    """Sells machines; each list of what exists is shown once, the last one for ever."""

    def __init__(
        self,
        *lists: Sequence[Machine] | Exception,
        sells: Machine | Exception | None = None,
        looks: Sequence[object] = (),
    ) -> None:
        self.lists = list(lists)
        self.sells = sells
        self.looks = list(looks)
        self.orders = 0
        self.listings = 0

    async def list_machines(self) -> list[Machine]:
        self.listings += 1
        shown = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(shown, Exception):
            raise shown
        return list(shown)

    async def get_machine(self, machine_id: str) -> Machine:
        observe = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(observe, Exception):
            raise observe
        return _machine(machine_id, status=str(observe))

    async def post_order(self, order: MachineOrder) -> Machine:
        assert order == ORDER
        self.orders += 1
        if isinstance(self.sells, Machine):
            return self.sells
        assert self.sells is not None, "nothing should have been ordered"
        raise self.sells


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_ATTEMPT_EVERY_S", 0)
    monkeypatch.setattr(ordering, "_POLL_S", 0)


LOST = [
    errors.ChangeServerError("POST /machines", "", status=500),
    errors.LostChangeError("POST /machines", "hung up"),
    errors.ChangeNotJsonError("POST /machines", "", status=200),
]


async def test_a_machine_of_that_name_is_taken_and_nothing_ordered() -> None:
    shop = Shop([_machine("other", "edge-2"), _machine("mine")])
    assert (await shop.create_machine(ORDER)).id == "mine"
    assert shop.orders == 0


async def test_names_are_compared_whole() -> None:
    shop = Shop([_machine("1", "edge-2"), _machine("2", "Edge"), _machine("3", "edg")], sells=_machine("new"))
    assert (await shop.create_machine(ORDER)).id == "new"


async def test_a_deleted_machine_is_not_taken() -> None:
    shop = Shop([_machine("old", status="deleted")], sells=_machine("new"))
    assert (await shop.create_machine(ORDER)).id == "new"


async def test_of_two_of_that_name_the_newer_is_taken() -> None:
    shop = Shop([_machine("newer", minutes=5), _machine("older")])
    assert (await shop.create_machine(ORDER)).id == "newer"


@pytest.mark.parametrize("lost", LOST)
async def test_after_a_lost_answer_the_machine_is_found_and_never_ordered_again(lost: Exception) -> None:
    shop = Shop([], [], [], [_machine("made")], sells=lost)
    assert (await shop.create_machine(ORDER)).id == "made"
    assert shop.orders == 1


@pytest.mark.parametrize("lost", LOST)
async def test_after_five_looks_the_outcome_is_unknown(lost: Exception) -> None:
    shop = Shop([], sells=lost)
    with pytest.raises(errors.OrderUnknownError, match="no machine of that name has appeared") as raised:
        await shop.create_machine(ORDER)
    assert (shop.orders, shop.listings, raised.value.name) == (1, 1 + 5, "edge")


async def test_looks_that_fail_are_looked_past() -> None:
    silent = errors.UnreachableError("GET /machines", "no route")
    shop = Shop([], silent, silent, [_machine("made")], sells=LOST[1])
    assert (await shop.create_machine(ORDER)).id == "made"


@pytest.mark.parametrize(
    "refusal",
    [
        errors.PaymentRequiredError("POST /machines", "", status=402),
        errors.UnprocessableError("POST /machines", "", status=422),
        errors.UnreachableError("POST /machines", "no route"),
    ],
)
async def test_a_clear_refusal_is_not_looked_behind(refusal: Exception) -> None:
    shop = Shop([], sells=refusal)
    with pytest.raises(type(refusal), match=re.escape(str(refusal))):
        await shop.create_machine(ORDER)
    assert shop.listings == 1


async def test_without_a_first_look_nothing_is_ordered() -> None:
    shop = Shop(errors.ReadServerError("GET /machines", "", status=500))
    with pytest.raises(errors.ReadServerError, match="GET /machines: 500"):
        await shop.create_machine(ORDER)
    assert shop.orders == 0


NOT_YET = errors.NotFoundError("GET /machines/m", "", status=404)


async def test_a_machine_just_ordered_may_be_unknown_at_first() -> None:
    shop = Shop([], looks=[NOT_YET, NOT_YET, "provisioning", "ready"])
    assert (await ordering.wait_ready(shop.get_machine, "m", timeout_s=5)).status is MachineStatus.READY


async def test_after_a_minute_unknown_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_ABSENT_GRACE_S", -1)
    with pytest.raises(errors.NotFoundError, match="GET /machines/m: 404"):
        await ordering.wait_ready(Shop([], looks=[NOT_YET]).get_machine, "m", timeout_s=5)


async def test_error_may_pass_and_failing_looks_too() -> None:
    broken = errors.ReadServerError("GET /machines/m", "", status=502)
    shop = Shop([], looks=["error", broken, "error", "ready"])
    assert (await ordering.wait_ready(shop.get_machine, "m", timeout_s=5)).status is MachineStatus.READY


async def test_deleted_ends_the_wait() -> None:
    with pytest.raises(errors.NotFoundError, match="deleted"):
        await ordering.wait_ready(Shop([], looks=["deleted"]).get_machine, "m", timeout_s=5)


async def test_a_wait_ends_and_says_what_was_seen_last() -> None:
    reports: list[str] = []
    with pytest.raises(WaitExpiredError, match="error"):
        await ordering.wait_ready(
            Shop([], looks=["provisioning", "error"]).get_machine, "m", timeout_s=0.05, report=reports.append
        )
    assert "provisioning" in reports[0]
