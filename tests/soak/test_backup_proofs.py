"""The full counts of the hostile tests of proofs: a million files, gigabytes of zeros, many damaged databases."""

import io
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.model.recovery.state import State
from hermesops.wire.state import tar_stream
from tests.support.fakes.machines.node_home import furnish
from tests.support.hostile.backup_proofs import QUICK, Proofs
from tests.support.hostile.databases import flipped

_HEADER = "import tarfile\nh = tarfile.TarInfo('a')\n"
_LARGE = replace(QUICK, least_s=1800, most_s=1800, processor_s=900, memory_bytes=1536 << 20, members=1_000_000)


@pytest.fixture
def proofs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proofs:
    for name in ("archives", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return Proofs(tmp_path / "archives", _LARGE)


@pytest.mark.timeout(3600)
async def test_a_million_files_end_early_and_leave_nothing(proofs: Proofs, tmp_path: Path) -> None:
    files = "for n in range(10**7):\n h.name = f'{n // 1000}/{n}'\n out.write(h.tobuf(tarfile.GNU_FORMAT))"
    proved = await proofs.prove(proofs.script(f"{_HEADER}{files}"))
    assert proved.checked == "the copy holds more than 1000000 files and folders"
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.timeout(3600)
async def test_gigabytes_of_zeros_that_were_announced_are_read_and_go(proofs: Proofs, tmp_path: Path) -> None:
    zeros = "h.size = 4 << 30\nout.write(h.tobuf(tarfile.GNU_FORMAT))\nfor _ in range(4096): out.write(bytes(1 << 20))"
    proved = await proofs.prove(proofs.script(f"{_HEADER}{zeros}", size=4 << 30))
    assert "its end is missing" in proved.checked or "cut short" in proved.checked
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.timeout(3600)
async def test_databases_damaged_at_random_end_alike_on_both_sides(proofs: Proofs, tmp_path: Path) -> None:
    for seed in range(300):
        home, out, begun = tmp_path / str(seed), io.BytesIO(), time.monotonic()
        home.mkdir()
        furnish(home)
        flipped(seed)(home / "state.db")
        state = State.from_json(tar_stream.pack(home, out).state)
        proved = await proofs.prove(proofs.archive(out.getvalue(), state))
        assert proved.is_proved == all(part.count >= 0 for part in state.parts.values()), (seed, proved.checked)
        assert time.monotonic() - begun < 60, seed
