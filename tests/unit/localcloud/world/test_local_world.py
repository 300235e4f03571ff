from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.localcloud.world.files import WorldFiles
from hermesops.localcloud.world.local_world import World


async def test_a_world_refuses_another_base_than_it_stands_on_before_it_starts_anything(tmp_path: Path) -> None:
    (tmp_path / "base").write_text("base-one")
    reports: list[str] = []
    with pytest.raises(RefusedError, match=r"uses base base-one, and local\.base is base-other") as caught:
        await World(tmp_path, base_definition=Path("/images/base-other")).up(
            ["false"], environment={}, report=reports.append
        )
    assert "down --purge" in str(caught.value.hint)
    assert reports == []


def test_a_purge_removes_every_file_of_a_world(tmp_path: Path) -> None:
    files = WorldFiles(tmp_path / "world")
    files.folder.mkdir()
    for file in vars(files).values():
        if file != files.folder:
            file.write_text("")
    for folder in (files.object_store, files.model_usage):
        folder.unlink()
        folder.mkdir()
    World(files.folder, base_definition=Path("/images/base-one"))._remove_files()
    assert not files.folder.exists(), sorted(files.folder.iterdir())
