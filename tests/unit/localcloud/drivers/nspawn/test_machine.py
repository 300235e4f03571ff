import asyncio
from pathlib import Path

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.nspawn.computer.cgroup import MachineGroup
from hermesops.localcloud.drivers.nspawn.machine import launch


@pytest.mark.parametrize("folder", ["two words", "$(touch ran)", "`touch ran`", "a;touch ran", "it's", 'a "quote'])
def test_the_name_of_a_folder_is_no_command(folder: str, tmp_path: Path) -> None:
    home = tmp_path / folder
    home.mkdir()
    wiring = f"echo wired\ntouch '{tmp_path}/ended'\nexit 0"
    launch(name="m-1", home=home, machine_id="a" * 32, group=MachineGroup([home]), wiring=wiring)

    async def ended() -> bool | Pending[bool]:
        return (tmp_path / "ended").exists() or Pending("it runs")

    asyncio.run(until(ended, what="the keeper to end", timeout_s=30))
    assert (home / "console.log").read_text() == "wired\n"
    assert (home / "cgroup.procs").read_text().strip().isdigit()
    assert {entry.name for entry in tmp_path.iterdir()} == {folder, "ended"}
    assert not Path("/ran").exists()
