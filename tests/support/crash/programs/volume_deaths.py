"""In a guest, makes or grows a data volume, and is killed at each step of that.

Run ``python3 -m tests.support.crash.programs.volume_deaths FOLDER make|grow``. The process dies by SIGKILL before each
step, in the middle of it where that is a command, which dies too, and after it. Then the same is done to its end.
Prints one JSON line: how many deaths there were. Needs the standard library and ``crash.death`` alone.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.support.crash.death import KILLED, Death, Mortal, kill_this_process

AGAIN = (sys.executable, "-m", "tests.support.crash.programs.volume_deaths")
PROGRAM = "/opt/hermes/node/hermes-node"
KEY = b"5c" * 32
SMALL, LARGE = 256 << 20, 512 << 20
OWNER = 4321
STEPS = ("open", "fsync", "posix_fallocate")
MOMENTS = ("before", "within", "after")
WITHIN_S = 0.01
_MOST = 200


def run_around(real: Callable[..., Any], death: Death) -> Callable[..., Any]:
    """Has a third point: within the command, which dies, too."""

    def call(words: list[str], **options: Any) -> object:  # noqa: ANN401 - whatever run takes
        death.point()
        if death.count + 1 == death.at:
            with suppress(subprocess.TimeoutExpired):  # which kills the command
                real(words, **{**options, "timeout": WITHIN_S})
        death.point()
        done = real(words, **options)
        death.point()
        return done

    return call


class Running:
    """Stands for the module ``subprocess``, whose ``run`` is a step."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run

    def __getattr__(self, name: str) -> object:
        return getattr(subprocess, name)


def open_volume(folder: Path, size: int, at: int) -> int:
    """Open and fill it, which dies at that moment; how many there were."""
    sys.path.insert(0, PROGRAM)
    from hermesops.programs.node.system import data_volume, files  # noqa: PLC0415 - of the guest's program
    from hermesops.wire import processes  # noqa: PLC0415 - of the guest's program

    death = Death(at, kill=kill_this_process)
    data_volume._ROOM_LEFT = 0
    data_volume.MKFS = (*data_volume.MKFS[:-1], "size=8")
    vars(data_volume)["os"] = vars(files)["os"] = Mortal(os, death, STEPS)
    vars(processes)["subprocess"] = Running(run_around(subprocess.run, death))
    for name in ("rename", "unlink", "mkdir"):
        setattr(Path, name, death.around(getattr(Path, name)))
    if not data_volume.observe(folder / "place").is_mounted:
        volume = folder / "disk/volume"
        data_volume.identify(volume)  # whoever asks for its key does so first
        data_volume.open_volume(volume, folder / "place", KEY, size)
    data_volume.fill_volume()
    return death.count


def close(folder: Path) -> None:
    subprocess.run(["umount", "-q", folder / "place"], check=False, stderr=subprocess.DEVNULL)
    for name in ("hermes-data", "hermes-data-making"):
        subprocess.run(["dmsetup", "remove", "--retry", name], check=False, stderr=subprocess.DEVNULL)


def prepare(folder: Path, *, grows: bool) -> None:
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
    if grows:
        subprocess.run([*AGAIN, folder, "die", str(SMALL), "0"], check=True)
        (place / "memory").write_text("kept" * (1 << 20))
        close(folder)


def check(folder: Path, size: int, *, grows: bool) -> None:
    place = folder / "place"
    here, room = place.stat(), os.statvfs(place)
    assert place.is_mount()
    assert (here.st_uid, here.st_gid, here.st_mode & 0o7777) == (OWNER, OWNER, 0o700), here
    there = sorted(path.name for path in place.iterdir())
    assert there == (["memory", "skills"] if grows else ["skills"]), there
    assert (place / "skills/SKILL.md").read_text() == "as the image has it"
    assert not grows or (place / "memory").read_text() == "kept" * (1 << 20)
    assert 0.8 * size < room.f_blocks * room.f_frsize <= size, (size, room)
    assert sorted(path.name for path in (folder / "disk").iterdir()) == ["volume", "volume.id"]
    mappings = subprocess.run(["dmsetup", "ls"], check=True, capture_output=True, text=True).stdout.split("\n")
    assert [line.split()[0] for line in mappings if line.startswith("hermes")] == ["hermes-data"], mappings
    close(folder)
    device = ["cryptsetup", "open", "--type", "luks2", "--key-file=-", str(folder / "disk/volume"), "hermes-data"]
    subprocess.run(device, input=KEY, check=True)
    subprocess.run(["e2fsck", "-fn", "/dev/mapper/hermes-data"], check=True, stdout=subprocess.DEVNULL)


def main(folder: Path, what: str) -> None:
    grows = what == "grow"
    size = LARGE if grows else SMALL
    for at in range(1, _MOST):
        prepare(folder, grows=grows)
        ran = subprocess.run([*AGAIN, folder, "die", str(size), str(at)], check=False)
        if ran.returncode == 0:
            break
        assert ran.returncode == KILLED, ran
        try:
            subprocess.run([*AGAIN, folder, "die", str(size), "0"], check=True)
            check(folder, size, grows=grows)
        except (AssertionError, subprocess.SubprocessError) as error:
            raise AssertionError(f"killed at moment {at}") from error
    close(folder)
    print(json.dumps({"deaths": at - 1}))  # noqa: T201 - a program of the guest


if __name__ == "__main__":
    if sys.argv[2] == "die":
        open_volume(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), sys.argv[2])
