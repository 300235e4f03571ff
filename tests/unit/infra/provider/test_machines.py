"""Making, changing and deleting one machine, with a vendor that misbehaves."""

import asyncio
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.infra.provider import backoff as backoff_module
from hermesops.infra.provider.backoff import Timeouts
from hermesops.infra.provider.machines import Machines
from hermesops.infra.provider.observation import HalfMadeError, InterruptedWorkError, MachineSpec, ObservedMachine
from hermesops.infra.provider.vendor import JustAvps

NAME = "hermes-local-cell1-0123456789ab"
ORDER = MachineSpec(NAME, "starter", "hel1", "img")
READY = ObservedMachine("id-1", NAME, "ready", region="hel1", server_type="starter", image_id="img")
NEW = replace(READY, status="provisioning", stage="server_creating")

Probe = ObservedMachine | None | Exception


@dataclass
class ScriptedVendor(JustAvps):
    """Answers looks from a list, the last one for ever."""

    looks: list[Probe] = field(default_factory=lambda: [READY])
    ordered: ObservedMachine = NEW
    found: ObservedMachine | None = None
    did: list[str] = field(default_factory=list)
    delete_error: Exception | None = None
    on_look: Callable[[], None] = lambda: None

    async def create_machine(self, spec: MachineSpec) -> ObservedMachine:
        self.did.append(f"order {spec.name}")
        return self.ordered

    async def find_machine(self, name: str) -> ObservedMachine | None:
        return self.found if self.found and self.found.name == name else None

    async def get_machine(self, machine_id: str) -> ObservedMachine | None:
        del machine_id
        self.on_look()
        answer = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def delete_machine(self, machine_id: str) -> None:
        self.did.append(f"delete {machine_id}")
        if self.delete_error:
            raise self.delete_error

    async def resize_machine(self, machine_id: str, server_type: str) -> None:
        self.did.append(f"resize {machine_id} {server_type}")


@dataclass
class Told:
    lines: list[str] = field(default_factory=list)

    async def __call__(self, line: str) -> None:
        self.lines.append(line)


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff_module, "_PACE_S", ((0.001, 5.0),))


def machines(vendor: ScriptedVendor, **timeouts: float) -> Machines:
    return Machines(lambda: vendor, Timeouts(**timeouts))


async def create(vendor: ScriptedVendor, timeout_s: float = 2, **timeouts: float) -> ObservedMachine:
    return await machines(vendor, **timeouts).create(ORDER, timeout_s=timeout_s, report=Told())


async def update(vendor: ScriptedVendor, server_type: str, timeout_s: float = 2) -> ObservedMachine:
    return await machines(vendor).update("id-1", NAME, {"server_type": server_type}, timeout_s=timeout_s, report=Told())


async def test_a_new_machine_is_waited_for_and_what_it_waits_for_is_told_once() -> None:
    record = Told()
    vendor = ScriptedVendor([NEW, NEW, replace(NEW, stage="cloud_init_running"), READY])
    assert await machines(vendor).create(ORDER, timeout_s=2, report=record) == READY
    assert record.lines == [
        f"{NAME} is machine id-1",
        f"waiting for {NAME} to be ready: provisioning server_creating",
        f"waiting for {NAME} to be ready: provisioning cloud_init_running",
    ]


async def test_a_machine_unknown_right_after_the_order_is_waited_for() -> None:
    assert await create(ScriptedVendor([None, None, READY])) == READY


async def test_a_machine_unknown_by_id_is_believed_when_the_list_has_it() -> None:
    assert await create(ScriptedVendor([None], found=READY), newborn=0) == READY


async def test_a_machine_that_vanished_is_not_kept_in_the_state() -> None:
    with pytest.raises(RefusedError, match="is gone"):
        await create(ScriptedVendor([NEW, None]), newborn=0)


async def test_a_machine_that_recovers_from_error_is_fine() -> None:
    broken = replace(NEW, status="error")
    assert await create(ScriptedVendor([broken, broken, READY])) == READY


@pytest.mark.parametrize(
    ("looks", "timeouts", "reason"),
    [
        ([replace(NEW, status="error")], {"broken": 0.05}, "did not recover"),
        ([NEW], {}, "did not become ready in time: provisioning server_creating"),
        ([NEW, RefusedError("the key was revoked")], {}, "exists, but: the key was revoked"),
        ([UnavailableError("no route")], {}, "no answer (no route)"),
    ],
)
async def test_a_machine_that_is_billed_and_not_ready_is_kept_with_its_id(
    looks: list[Probe], timeouts: dict[str, float], reason: str
) -> None:
    with pytest.raises(HalfMadeError, match=re.escape(reason)) as caught:
        await create(ScriptedVendor(looks), timeout_s=0.2, **timeouts)
    assert caught.value.observed.id == "id-1"


@pytest.mark.parametrize("strange", [{"region": "nbg1"}, {"image_id": "older"}])
async def test_another_machine_of_that_name_is_not_adopted(strange: dict[str, str]) -> None:
    vendor = ScriptedVendor(ordered=replace(READY, **strange))
    with pytest.raises(RefusedError, match="exists already"):
        await create(vendor)


async def test_what_the_vendor_does_not_tell_is_no_difference() -> None:
    silent = replace(NEW, region="", image_id="")
    assert await create(ScriptedVendor([READY], ordered=silent)) == READY


async def test_nothing_is_ordered_once_the_engine_stops() -> None:
    vendor = ScriptedVendor()
    subject = machines(vendor)
    subject.stopping.set()
    with pytest.raises(InterruptedWorkError, match="was not ordered"):
        await subject.create(ORDER, timeout_s=1, report=Told())
    assert vendor.did == []


async def test_a_wait_that_is_interrupted_keeps_the_machine() -> None:
    vendor = ScriptedVendor([NEW])
    subject = machines(vendor)
    vendor.on_look = subject.stopping.set
    with pytest.raises(HalfMadeError, match="interrupted"):
        await subject.create(ORDER, timeout_s=60, report=Told())


async def test_a_size_counts_when_it_is_seen_and_not_when_it_is_accepted() -> None:
    grown = replace(READY, server_type="pro")
    vendor = ScriptedVendor([READY, READY, replace(grown, status="provisioning"), grown])
    assert await update(vendor, "pro") == grown
    assert vendor.did == ["resize id-1 pro"]


async def test_a_size_that_does_not_come_is_reported_with_the_machine() -> None:
    with pytest.raises(HalfMadeError, match="still starter"):
        await update(ScriptedVendor([READY]), "pro", timeout_s=0.1)


async def test_a_half_made_machine_is_finished_without_asking_for_anything() -> None:
    vendor = ScriptedVendor([NEW, NEW, READY])
    assert await update(vendor, "starter") == READY
    assert vendor.did == []


async def test_a_machine_that_vanishes_while_it_is_changed_is_not_waited_for() -> None:
    """Only one that was just ordered may still be unknown to the vendor."""
    with pytest.raises(RefusedError, match="is gone: the vendor knows no such machine"):
        await update(ScriptedVendor([READY, None]), "pro", timeout_s=0.5)


async def test_a_stopped_machine_may_stay_stopped() -> None:
    stopped = replace(READY, status="stopped")
    assert await update(ScriptedVendor([stopped]), "starter") == stopped


@pytest.mark.parametrize(
    ("observe", "reason"),
    [
        (None, "is gone"),
        (replace(READY, name="hermes-local-cell1-ffffffffffff"), "is named 'hermes-local-cell1-ffffffffffff'"),
    ],
)
async def test_nothing_is_resized_that_is_gone_or_named_otherwise(observe: ObservedMachine | None, reason: str) -> None:
    vendor = ScriptedVendor([observe])
    with pytest.raises(RefusedError, match=reason):
        await update(vendor, "pro")
    assert vendor.did == []


async def test_deleting_waits_until_it_is_gone() -> None:
    vendor = ScriptedVendor([READY, READY, replace(READY, status="deleted")])
    await machines(vendor).delete("id-1", NAME)
    assert vendor.did == ["delete id-1"]
    assert len(vendor.looks) == 1


async def test_deleting_what_is_gone_is_done() -> None:
    vendor = ScriptedVendor([None])
    await machines(vendor).delete("id-1", NAME)
    assert vendor.did == []


async def test_a_machine_of_another_name_is_never_deleted() -> None:
    vendor = ScriptedVendor([replace(READY, name="hermes-local-cell1-ffffffffffff")])
    with pytest.raises(RefusedError, match="in the state: not changed"):
        await machines(vendor).delete("id-1", NAME)
    assert vendor.did == []


async def test_a_lost_answer_to_a_delete_is_settled_by_looking() -> None:
    vendor = ScriptedVendor([READY, None], delete_error=UnknownOutcomeError("connection reset"))
    await machines(vendor).delete("id-1", NAME)


async def test_a_machine_that_does_not_go_is_not_called_deleted() -> None:
    vendor = ScriptedVendor([READY], delete_error=UnknownOutcomeError("connection reset"))
    with pytest.raises(UnavailableError, match="the answer was lost: connection reset"):
        await machines(vendor, gone=0.05).delete("id-1", NAME)


async def test_the_vendor_is_not_opened_before_it_is_needed() -> None:
    opened: list[str] = []

    def open_vendor() -> ScriptedVendor:
        opened.append("opened")
        return ScriptedVendor()

    subject = Machines(open_vendor)
    assert opened == []
    await subject.read("id-1", NAME)
    await subject.read("id-1", NAME)
    assert opened == ["opened"]


@pytest.mark.parametrize("waiting", ["create", "update", "delete"])
async def test_a_wait_ends_at_once_when_the_engine_wants_an_end(monkeypatch: pytest.MonkeyPatch, waiting: str) -> None:
    """The next look would be an hour away."""
    monkeypatch.setattr(backoff_module, "_PACE_S", ((3600.0, 7200.0),))
    vendor = ScriptedVendor([NEW])
    subject = machines(vendor)
    work: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "create": lambda: subject.create(ORDER, timeout_s=0, report=Told()),
        "update": lambda: subject.update("id-1", NAME, {"server_type": "pro"}, timeout_s=0, report=Told()),
        "delete": lambda: subject.delete("id-1", NAME),
    }
    task = asyncio.create_task(work[waiting]())
    looks = {"create": 1, "update": 2, "delete": 2}[waiting]
    answer: list[None] = []

    def observe() -> None:
        answer.append(None)
        if len(answer) == looks:
            subject.stopping.set()

    vendor.on_look = observe
    with pytest.raises((HalfMadeError, InterruptedWorkError), match="interrupted"):
        await asyncio.wait_for(task, 60)


async def test_an_order_on_its_way_is_answered_for_when_the_engine_wants_an_end() -> None:
    vendor = ScriptedVendor([NEW])
    subject = machines(vendor)
    ordered = vendor.create_machine

    async def late(spec: MachineSpec) -> ObservedMachine:
        subject.stopping.set()
        return await ordered(spec)

    vendor.create_machine = late  # type: ignore[method-assign]
    with pytest.raises(HalfMadeError, match="interrupted while waiting") as caught:
        await subject.create(ORDER, timeout_s=0, report=Told())
    assert caught.value.observed.id == "id-1"


async def test_a_timeout_of_the_program_counts_for_a_deletion() -> None:
    with pytest.raises(UnavailableError, match=r"waited 0\.05 s"):
        await machines(ScriptedVendor([READY])).delete("id-1", NAME, timeout_s=0.05)


async def test_a_machine_is_found_by_its_name_alone() -> None:
    def resource(machine: ObservedMachine) -> Machines:
        return machines(ScriptedVendor(found=machine))

    assert await resource(NEW).read("", NAME) == NEW
    assert await resource(NEW).read("", "other") is None
    assert await resource(NEW).read("", "") is None
    assert await resource(replace(NEW, status="deleted")).read("", NAME) is None
