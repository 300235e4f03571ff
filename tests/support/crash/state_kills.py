"""A change of a stack, killed at one call to the disk, and the same command again: nothing lost, nothing twice."""

import shutil
import subprocess
import sys
from pathlib import Path

from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from tests.support.crash.death import KILLED
from tests.support.crash.programs.dying_stack_change import CHANGES
from tests.support.engine.fake_stack import ROOT, STACK, FakeStack


def changed(folder: Path, change: str, point: int) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tests.support.crash.programs.dying_stack_change", str(folder), change, str(point)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def before(folder: Path, change: str) -> Path:
    """A stack on which that change is the next one."""
    stack = FakeStack(folder).install()
    for earlier in list(CHANGES)[: list(CHANGES).index(change)]:
        done = changed(stack.folder, earlier, 0)
        assert done.returncode == 0, done.stderr
    return folder


def points(begun: Path, folder: Path, change: str) -> int:
    """How many calls to the disk the change takes."""
    done = changed(Path(shutil.copytree(begun, folder)), change, 0)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


async def killed_and_repeated(begun: Path, folder: Path, change: str, point: int) -> None:
    """Kill the change before that call, look at what is left, and repeat it."""
    stack = FakeStack(Path(shutil.copytree(begun, folder)))
    _use(stack)
    died = changed(stack.folder, change, point)
    assert died.returncode == KILLED, died.stderr
    FileBackend(stack.backend).read(STACK)  # never damaged
    engine = stack.engine()
    await engine.up(STACK, CHANGES[change]())
    expected = ["a"] if change == "delete" else ["a", "b"]
    assert stack.machines() == expected
    state = stack.state()
    resources = sorted(r["urn"].rpartition("::")[2] for r in state["resources"] if r["type"].endswith("Machine"))
    assert resources == expected
    assert "pending_operations" not in state
    assert not list((stack.backend / ".pulumi" / "locks").rglob("*.json"))
    assert (await engine.up(STACK, CHANGES[change]())).changes == ()


def _use(stack: FakeStack) -> None:
    """Point the copied launcher of the plugin at its own folder."""
    launcher = stack.plugins / "pulumi-resource-justavps"
    text = launcher.read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("os.chdir("))
    launcher.write_text(text.replace(line, f"os.chdir({str(stack.plugins)!r})"))
