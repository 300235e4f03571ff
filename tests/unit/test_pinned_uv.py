"""The uv that make installs is the one of the lock, by hash: what installs everything else is pinned like the rest."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PINS = (ROOT / ".uv.txt").read_text()


def test_it_is_the_version_of_the_lock_and_every_hash_is_of_a_wheel_in_it() -> None:
    [uv] = [package for package in tomllib.loads((ROOT / "uv.lock").read_text())["package"] if package["name"] == "uv"]
    assert re.findall(r"^uv==(\S+)", PINS, re.MULTILINE) == [uv["version"]]
    assert set(re.findall(r"--hash=(\S+)", PINS)) == {wheel["hash"] for wheel in uv["wheels"]}


def test_make_installs_nothing_that_has_no_hash() -> None:
    lines = [line for line in (ROOT / "Makefile").read_text().splitlines() if "pip install" in line]
    assert lines
    assert all("--require-hashes" in line and "--only-binary=:all:" in line for line in lines)
