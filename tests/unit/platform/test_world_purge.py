"""A purge tells what it removes, and leaves alone what others may share."""

from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import BrokenInvariantError, Hint, PartlyDoneError, RefusedError
from hermesops.platform.local.purge import Losses, WorldPurge
from hermesops.settings.environment import Environment
from tests.support.fakes.parts import part


class Registry:
    """A registry that knows some machines."""

    def __init__(self, *machines: str) -> None:
        self.machines = frozenset(machines)
        self.purged: list[bool] = []
        self.world: Any = part(known_machines=lambda: self.machines, count=self._count, purge=self._purge)

    def _count(self) -> Any:  # noqa: ANN401 - stands for a Fleet
        return part(instances=2, backups=5)

    def _purge(self, *, with_backups: bool, why: str) -> Any:  # noqa: ANN401 - as above
        assert why
        self.purged.append(with_backups)
        return self._count()

    def close(self) -> None:
        """Nothing is open."""


def purge(home: Path, registry: Registry, *, is_damaged: bool = False, **variables: str) -> WorldPurge:
    given = {f"HERMESOPS_{name}": value for name, value in variables.items()}
    env = Environment.load("local", {"HOME": str(home), "HERMESOPS_HOME": str(home)} | given)
    file = home / "registry.db"
    file.write_text("rows")

    def open_registry() -> Registry:
        if is_damaged:
            raise BrokenInvariantError("damaged")
        return registry

    async def contents() -> Any:  # noqa: ANN401 - stands for the world's contents
        return part(machines=frozenset({"m-1", "m-2"}), images=1)

    async def down(**_: object) -> None:
        """The world is gone."""

    world: Any = part(contents=contents, down=down)
    place: Any = part(file=file, open=open_registry, is_there=file.exists, set_aside_foreign=lambda: None)

    def reopened() -> WorldPurge:
        return purge(home, registry)

    return WorldPurge(env, world, place, lambda _: None, reopened)


async def test_losses_are_counted_and_what_is_not_known_is_said(tmp_path: Path) -> None:
    assert await purge(tmp_path, Registry()).losses() == Losses(users=2, machines=2, images=1, backups=5)
    assert (await purge(tmp_path, Registry(), BACKUP_BUCKET="ours").losses()).backups == 0
    damaged = await purge(tmp_path, Registry(), is_damaged=True).losses()
    assert str(damaged) == "an unknown number of users, 2 machines, 1 image, an unknown number of backups"
    assert str(Losses(0, 0, 0, 0)) == "nothing"
    assert not Losses(0, 0, 0, 0)
    assert Losses(0, None, 0, 0)


async def test_a_shared_registry_keeps_its_rows(tmp_path: Path) -> None:
    registry, url = Registry("m-1"), "postgresql://shared/registry"
    with pytest.raises(RefusedError, match="1 machine of this world"):
        await purge(tmp_path, registry, REGISTRY_URL=url).losses()
    await purge(tmp_path, registry, REGISTRY_URL=url).run()
    assert registry.purged == []
    assert purge(tmp_path, registry, REGISTRY_URL=url).left_over([]) == Hint()


async def test_rows_end_with_the_world_and_backups_with_its_bucket(tmp_path: Path) -> None:
    registry = Registry()
    await purge(tmp_path, registry).run()
    await purge(tmp_path, registry, BACKUP_BUCKET="ours").run()
    assert registry.purged == [True, False]
    with pytest.raises(PartlyDoneError, match="the registry still lists it: damaged"):
        await purge(tmp_path, registry, is_damaged=True).run()


def test_a_registry_that_outlived_its_world_is_told(tmp_path: Path) -> None:
    assert "2 users of a local world that is gone" in str(purge(tmp_path, Registry("m-1")).left_over(["m-9"]))
    assert purge(tmp_path, Registry("m-1")).left_over(["m-1"]) == Hint()
    assert purge(tmp_path, Registry()).left_over(["m-9"]) == Hint()


async def test_the_platforms_registry_goes_with_its_world_and_the_one_from_before_counts_again(tmp_path: Path) -> None:
    registry = Registry("m-1")
    folder = tmp_path / "local"
    folder.mkdir()
    (folder / "settings.toml.before-platform").write_text('region = "nbg1"\n')
    (folder / "settings.toml").write_text('region = "nbg1"\n[registry]\nurl = "postgresql://h/hermesops"\n')
    (folder / "settings.toml").chmod(0o600)
    purging = purge(tmp_path, registry)
    assert await purging.losses() == Losses(2, 2, 1, 5)
    await purging.run()
    assert (folder / "settings.toml").read_text() == 'region = "nbg1"\n'
    assert registry.purged == [True]
