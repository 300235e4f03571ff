"""Saving and deleting one image, with a vendor that misbehaves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.infra.provider import backoff as backoff_module
from hermesops.infra.provider import images as images_module
from hermesops.infra.provider.backoff import Timeouts
from hermesops.infra.provider.images import Images
from hermesops.infra.provider.observation import HalfMadeError, ImageSpec, InterruptedWorkError, ObservedImage
from hermesops.infra.provider.vendor import JustAvps

ORDER = ImageSpec("base-1", "machine-1")
READY = ObservedImage("id-1", "base-1", "ready", bootable=True, machine_id="machine-1")
NEW = replace(READY, status="creating", bootable=False)

Probe = ObservedImage | None | Exception


@dataclass
class ScriptedVendor(JustAvps):
    """Answers looks from a list, the last one for ever."""

    looks: list[Probe] = field(default_factory=lambda: [READY])
    listed: list[ObservedImage] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    save_error: Exception | None = None
    delete_error: Exception | None = None
    on_look: Callable[[], None] = lambda: None

    async def save_image(self, spec: ImageSpec) -> ObservedImage:
        self.did.append(f"save {spec.name} of {spec.machine_id}")
        if self.save_error:
            raise self.save_error
        return NEW

    async def find_images(self, name: str) -> list[ObservedImage]:
        return [image for image in self.listed if image.name == name]

    async def get_image(self, image_id: str) -> ObservedImage | None:
        del image_id
        self.on_look()
        answer = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def delete_image(self, image_id: str) -> None:
        self.did.append(f"delete {image_id}")
        if self.delete_error:
            raise self.delete_error


@pytest.fixture(autouse=True)
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff_module, "_PACE_S", ((0.001, 5.0),))
    monkeypatch.setattr(images_module, "_LOST_ANSWER_S", 0.05)


async def nobody(line: str) -> None:
    del line


def images(vendor: ScriptedVendor, **timeouts: float) -> Images:
    return Images(lambda: vendor, Timeouts(**timeouts))


async def create(vendor: ScriptedVendor, timeout_s: float = 2) -> ObservedImage:
    return await images(vendor).create(ORDER, timeout_s=timeout_s, report=nobody)


async def test_an_image_is_done_when_it_boots_and_not_when_it_is_called_ready() -> None:
    vendor = ScriptedVendor([NEW, replace(READY, bootable=False), READY])
    assert await create(vendor) == READY
    assert vendor.looks == [READY]


async def test_one_of_that_name_and_machine_is_adopted() -> None:
    vendor = ScriptedVendor([READY], listed=[NEW])
    assert await create(vendor) == READY
    assert vendor.did == []


async def test_one_of_another_machine_is_not_adopted() -> None:
    vendor = ScriptedVendor(listed=[replace(READY, machine_id="machine-2")])
    with pytest.raises(RefusedError, match=r"exists already .*of machine machine-2"):
        await create(vendor)
    assert vendor.did == []


async def test_one_that_failed_before_is_swept() -> None:
    vendor = ScriptedVendor(listed=[replace(NEW, id="id-0", status="failed")])
    assert await create(vendor) == READY
    assert vendor.did == ["delete id-0", "save base-1 of machine-1"]


async def test_a_lost_answer_is_settled_by_looking() -> None:
    vendor = ScriptedVendor(save_error=UnknownOutcomeError("cut"))
    begun = vendor.save_image

    async def save(spec: ImageSpec) -> ObservedImage:
        vendor.listed = [NEW]
        return await begun(spec)

    vendor.save_image = save  # type: ignore[method-assign]
    assert await create(vendor) == READY
    assert vendor.did == ["save base-1 of machine-1"]


async def test_a_lost_answer_without_an_image_stays_unknown() -> None:
    with pytest.raises(UnknownOutcomeError, match="cut"):
        await create(ScriptedVendor(save_error=UnknownOutcomeError("cut")))


async def test_one_that_fails_is_taken_away_and_said() -> None:
    vendor = ScriptedVendor([NEW, replace(NEW, status="failed", reason="no room")])
    with pytest.raises(RefusedError, match="could not be saved: no room"):
        await create(vendor)
    assert vendor.did == ["save base-1 of machine-1", "delete id-1"]


async def test_one_that_failed_and_cannot_be_removed_is_kept_with_its_id() -> None:
    vendor = ScriptedVendor([replace(NEW, status="failed")], delete_error=UnavailableError("no route"))
    with pytest.raises(HalfMadeError, match="removing it failed: no route") as caught:
        await create(vendor)
    assert caught.value.observed.id == "id-1"


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        ([NEW], "was not saved in time: creating"),
        ([NEW, RefusedError("the key was revoked")], "exists, but: the key was revoked"),
        ([UnavailableError("no route")], r"no answer \(no route\)"),
    ],
)
async def test_one_that_is_not_finished_is_kept_with_its_id(looks: list[Probe], reason: str) -> None:
    with pytest.raises(HalfMadeError, match=reason) as caught:
        await create(ScriptedVendor(looks), timeout_s=0.1)
    assert caught.value.observed.id == "id-1"


async def test_one_that_vanished_is_not_kept_in_the_state() -> None:
    with pytest.raises(RefusedError, match="is gone"):
        await create(ScriptedVendor([NEW, None]))


async def test_a_half_made_one_is_finished_without_asking_for_anything() -> None:
    vendor = ScriptedVendor([NEW, NEW, READY])
    assert await images(vendor).update("id-1", "base-1", {}, timeout_s=2, report=nobody) == READY
    assert vendor.did == []


async def test_a_wait_ends_at_once_when_the_engine_wants_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff_module, "_PACE_S", ((3600.0, 7200.0),))
    vendor = ScriptedVendor([NEW])
    subject = images(vendor)
    vendor.on_look = subject.stopping.set
    with pytest.raises(HalfMadeError, match="interrupted"):
        await asyncio.wait_for(subject.create(ORDER, timeout_s=0, report=nobody), 60)
    with pytest.raises(InterruptedWorkError, match="was not begun"):
        await subject.create(ORDER, timeout_s=0, report=nobody)
    assert vendor.did == ["save base-1 of machine-1"]


async def test_deleting_waits_until_it_is_gone_and_never_takes_another() -> None:
    vendor = ScriptedVendor([READY, READY, replace(READY, status="deleted")])
    await images(vendor).delete("id-1", "base-1")
    await images(vendor).delete("id-1", "base-1")
    assert vendor.did == ["delete id-1"]
    other = ScriptedVendor([replace(READY, name="base-2")])
    with pytest.raises(RefusedError, match="in the state: not changed"):
        await images(other).delete("id-1", "base-1")
    assert other.did == []


async def test_one_that_does_not_go_is_not_called_deleted() -> None:
    vendor = ScriptedVendor([READY], delete_error=UnknownOutcomeError("cut"))
    with pytest.raises(UnavailableError, match="the answer was lost: cut"):
        await images(vendor).delete("id-1", "base-1", timeout_s=0.05)


async def test_an_image_is_found_by_its_name_unless_it_failed() -> None:
    def resource(*listed: ObservedImage) -> Images:
        return images(ScriptedVendor(listed=list(listed)))

    failed = replace(NEW, id="id-2", status="failed")
    assert await resource(failed, NEW).read("", NEW.name) == NEW
    assert await resource(NEW).read("", "other") is None
    assert await resource(failed).read("", NEW.name) is None
