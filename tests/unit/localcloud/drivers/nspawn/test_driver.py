"""The base that a world's machines boot from, with bases that are there already."""

from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.localcloud.drivers.nspawn.disks.base_image import read_definition
from hermesops.localcloud.drivers.nspawn.driver import NspawnDriver

DEFINITION = assets.folder("images") / "base-debian12"


@pytest.fixture
def bases(tmp_path: Path) -> Path:
    """A folder with both bases, of which the driver looks at nothing but the manifest."""
    definition = read_definition(DEFINITION)
    for base in (definition, definition.for_platform()):
        home = tmp_path / "bases" / f"{base.name}-{base.digest}"
        home.mkdir(parents=True)
        (home / "base.json").write_text("{}")
    return tmp_path / "bases"


async def test_machines_boot_from_the_agents_base_until_the_platforms_is_asked_for(tmp_path: Path, bases: Path) -> None:
    def name() -> str:
        # Another driver than the one that was told: the server's, and that of each later start.
        root = NspawnDriver(tmp_path / "world", definition=DEFINITION, bases=bases)._base()
        return root.parent.name.rpartition("-")[0]

    assert name() == "base-debian12"
    assert name() == "base-debian12", "a look asks for nothing"
    driver = NspawnDriver(tmp_path / "world", definition=DEFINITION, bases=bases)
    for _ in range(2):
        await driver.extend_base()
        assert name() == "base-debian12-platform"
    await driver.close(purge=False)


async def test_a_base_that_cannot_be_built_leaves_machines_with_the_one_they_have(
    tmp_path: Path, bases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Path:
        raise OSError("no space left")

    driver = NspawnDriver(tmp_path / "world", definition=DEFINITION, bases=bases)
    with monkeypatch.context() as patch:
        patch.setattr("hermesops.localcloud.drivers.nspawn.driver.ensure_base", fail)
        with pytest.raises(OSError, match="no space"):
            await driver.extend_base()
    assert driver._base().parent.name == f"base-debian12-{read_definition(DEFINITION).digest}"
    await driver.close(purge=False)
