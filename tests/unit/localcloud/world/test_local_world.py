from pathlib import Path

import pytest

from hermesops.errors import RefusedError
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
