import gc
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

from hermesops.access.secrets.temp_files import _MEMORY, TempFiles

LENDING = """
import sys
from pathlib import Path
from hermesops.access.secrets.temp_files import TempFiles
lent = TempFiles(Path(sys.argv[1]))
print(lent.lend("api.key", "secret"), flush=True)
sys.stdin.read()
"""


def lender(folder: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", LENDING, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    return process, Path(process.stdout.readline().strip())


def end(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_a_lent_file_is_its_owners_and_gone_with_its_lender(tmp_path: Path) -> None:
    lent = TempFiles(tmp_path)
    file = lent.lend("api.key", "one")
    assert lent.lend("api.key", "two") == file
    assert file.read_text() == "two"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    del lent
    gc.collect()
    assert not file.parent.exists()


def test_a_process_that_ends_takes_its_files_along(tmp_path: Path) -> None:
    process, file = lender(tmp_path)
    assert file.read_text() == "secret"
    end(process)
    assert not file.exists()


def test_what_a_killed_process_left_is_removed_by_the_next_and_what_a_living_one_holds_is_not(tmp_path: Path) -> None:
    killed, left = lender(tmp_path)
    living, held = lender(tmp_path)
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert left.exists()
    lent = TempFiles(tmp_path)
    lent.lend("router.key", "x")
    assert not left.parent.exists()
    assert held.read_text() == "secret"
    end(living)


def test_by_default_files_are_lent_in_memory() -> None:
    lent = TempFiles()
    file = lent.lend("api.key", "x")
    if _MEMORY.is_dir():
        assert file.is_relative_to(_MEMORY)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
