"""``python3 volume_deaths.py FOLDER make|grow``: a data volume, killed at each step of being made or grown; in a guest.

The process dies by SIGKILL before each step, in the middle of it where that is a command, which dies too, and after
it; then the same is done to its end. Prints one JSON line: how many deaths there were. Standard library alone.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

PROGRAM = "/opt/hermes/node/hermes-node"
KEY = b"5c" * 32
SMALL, LARGE = 256 << 20, 512 << 20
OWNER = 4321
STEPS = ("open", "fsync", "posix_fallocate")
MOMENTS = ("before", "within", "after")
WITHIN_S = 0.01
_MOST = 200


class Fate:
    """Counts moments, and kills this process at one of them."""

    def __init__(self, at: int) -> None:
        self._at = at
        self.count = 0

    def comes(self) -> bool:
        self.count += 1
        return self.count == self._at

    def strike(self) -> None:
        if self.comes():
            os.kill(os.getpid(), signal.SIGKILL)


def around(real: Callable[..., Any], fate: Fate) -> Callable[..., Any]:
    def call(*arguments: object, **options: object) -> object:
        fate.strike()
        done = real(*arguments, **options)
        fate.strike()
        return done

    return call


def run_around(real: Callable[..., Any], fate: Fate) -> Callable[..., Any]:
    def call(words: list[str], **options: Any) -> object:  # noqa: ANN401 - whatever run takes
        fate.strike()
        if fate.comes():
            with suppress(subprocess.TimeoutExpired):  # which kills the command
                real(words, **{**options, "timeout": WITHIN_S})
            os.kill(os.getpid(), signal.SIGKILL)
        done = real(words, **options)
        fate.strike()
        return done

    return call


class Deadly:
    """Stands in for a module of which some functions are steps."""

    def __init__(self, module: ModuleType, **steps: Callable[..., Any]) -> None:
        self._module = module
        self._steps = steps

    def __getattr__(self, name: str) -> object:
        return self._steps.get(name) or getattr(self._module, name)


def open_volume(folder: Path, size: int, at: int) -> int:
    """Open and fill it, which dies at that moment; how many there were."""
    sys.path.insert(0, PROGRAM)
    from hermesops.node.system import data_volume, files, processes  # noqa: PLC0415 - of the guest's program

    fate = Fate(at)
    data_volume._ROOM_LEFT = 0
    data_volume.MKFS = (*data_volume.MKFS[:-1], "size=8")
    deadly = Deadly(os, **{name: around(getattr(os, name), fate) for name in STEPS})
    vars(data_volume)["os"] = vars(files)["os"] = deadly
    vars(processes)["subprocess"] = Deadly(subprocess, run=run_around(subprocess.run, fate))
    for name in ("rename", "unlink", "mkdir"):
        setattr(Path, name, around(getattr(Path, name), fate))
    if not data_volume.observe(folder / "place").is_mounted:
        volume = folder / "disk/volume"
        data_volume.identify(volume)  # whoever asks for its key does so first
        data_volume.open_volume(volume, folder / "place", KEY, size)
    data_volume.fill_volume()
    return fate.count


def close(folder: Path) -> None:
    subprocess.run(["umount", "-q", folder / "place"], check=False, stderr=subprocess.DEVNULL)
    for name in ("hermes-data", "hermes-data-making"):
        subprocess.run(["dmsetup", "remove", "--retry", name], check=False, stderr=subprocess.DEVNULL)


def prepare(folder: Path, *, made: bool) -> None:
    """A machine with nothing, or with a small volume in which something lies."""
    close(folder)
    for name in ("disk", "place"):
        shutil.rmtree(folder / name, ignore_errors=True)
    place = folder / "place"
    (place / "skills").mkdir(parents=True)
    (place / "skills/SKILL.md").write_text("as the image has it")
    for path in (place, place / "skills", place / "skills/SKILL.md"):
        os.chown(path, OWNER, OWNER)
    place.chmod(0o700)
    if made:
        subprocess.run([sys.executable, __file__, folder, "die", str(SMALL), "0"], check=True)
        (place / "memory").write_text("kept" * (1 << 20))
        close(folder)


def check(folder: Path, size: int, *, made: bool) -> None:
    place = folder / "place"
    here, room = place.stat(), os.statvfs(place)
    assert place.is_mount()
    assert (here.st_uid, here.st_gid, here.st_mode & 0o7777) == (OWNER, OWNER, 0o700), here
    there = sorted(path.name for path in place.iterdir())
    assert there == (["memory", "skills"] if made else ["skills"]), there
    assert (place / "skills/SKILL.md").read_text() == "as the image has it"
    assert not made or (place / "memory").read_text() == "kept" * (1 << 20)
    assert 0.8 * size < room.f_blocks * room.f_frsize <= size, (size, room)
    assert sorted(path.name for path in (folder / "disk").iterdir()) == ["volume", "volume.id"]
    mappings = subprocess.run(["dmsetup", "ls"], check=True, capture_output=True, text=True).stdout.split("\n")
    assert [line.split()[0] for line in mappings if line.startswith("hermes")] == ["hermes-data"], mappings
    close(folder)
    device = ["cryptsetup", "open", "--type", "luks2", "--key-file=-", str(folder / "disk/volume"), "hermes-data"]
    subprocess.run(device, input=KEY, check=True)
    subprocess.run(["e2fsck", "-fn", "/dev/mapper/hermes-data"], check=True, stdout=subprocess.DEVNULL)


def main(folder: Path, what: str) -> None:
    made = what == "grow"
    size = LARGE if made else SMALL
    for at in range(1, _MOST):
        prepare(folder, made=made)
        ran = subprocess.run([sys.executable, __file__, folder, "die", str(size), str(at)], check=False)
        if ran.returncode == 0:
            break
        assert ran.returncode == -signal.SIGKILL, ran
        try:
            subprocess.run([sys.executable, __file__, folder, "die", str(size), "0"], check=True)
            check(folder, size, made=made)
        except (AssertionError, subprocess.SubprocessError) as error:
            raise AssertionError(f"killed at moment {at}") from error
    close(folder)
    print(json.dumps({"deaths": at - 1}))  # noqa: T201 - a program of the guest


if __name__ == "__main__":
    if sys.argv[2] == "die":
        open_volume(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), sys.argv[2])
