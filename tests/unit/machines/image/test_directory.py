"""An image is built under its lease and recorded before the lease ends; one that is being built is refused."""

from typing import Any

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.image.directory import ImageBuilds
from hermesops.model.operation import LeaseHeldError
from hermesops.wire.documents.lock import Lock
from tests.support.fakes.parts import Leases, part


async def test_a_build_is_recorded_and_one_under_way_is_refused() -> None:
    recorded: list[tuple[str, dict[str, Any]]] = []
    manifest = part(image_id="i-1", name="hermes-base", digest="d", to_json=lambda: {"image": "i-1"})

    async def recipe(name: str) -> Any:  # noqa: ANN401 - stands for a recipe
        return f"recipe of {name}"

    async def build(recipe: str) -> Any:  # noqa: ANN401 - stands for what was built
        assert recipe == "recipe of hermes-base"
        assert not recorded
        return part(manifest=manifest)

    registry = part(images=part(record=lambda image_id, **row: recorded.append((image_id, row))))
    leases = Leases()
    builds = ImageBuilds(registry, part(build=build), recipe, leases.hold, no_release)
    built = await builds.build("hermes-base")
    assert built.manifest is manifest
    assert leases.held == ["image/hermes-base"]
    assert recorded == [("i-1", {"name": "hermes-base", "digest": "d", "manifest": {"image": "i-1"}})]
    with pytest.raises(LeaseHeldError, match="image/hermes-base is being worked on"):
        await ImageBuilds(registry, part(), recipe, Leases("image/hermes-base").hold, no_release).build("hermes-base")
    assert len(recorded) == 1


async def test_a_release_that_no_machine_may_run_gets_into_no_image() -> None:
    async def recipe(name: str) -> Any:  # noqa: ANN401 - stands for a recipe
        return name

    builds = ImageBuilds(part(), part(), recipe, Leases().hold, no_release)
    with pytest.raises(RefusedError, match="was revoked"):
        await builds.build("hermes-base", release="0.21.5")


def no_release(text: str) -> Lock:
    raise RefusedError(f"release {text} was revoked")
