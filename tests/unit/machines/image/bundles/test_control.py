"""What the platform's host installs hermesops from: the same bytes of the same inputs, made once."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import hermesops
from hermesops.base import assets
from hermesops.errors import BrokenInvariantError
from hermesops.machines.image.bundles import control as control_bundle
from hermesops.machines.image.bundles import own_wheel
from hermesops.machines.image.bundles.control import ControlBundle
from hermesops.machines.image.packages.download import Pip

PACKAGE = Path(hermesops.__file__).parent


class Index(Pip):
    """Gives a wheel of uv, and counts how often it is asked."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked = 0

    def wheels(self, requirements: Path, folder: Path, *, python: str) -> None:
        assert python == "3.11"
        self.asked += requirements.name == "lock.txt"
        folder.mkdir()
        for name in {"lock.txt": ("one-1-py3-none-any.whl",), "uv.txt": self.names}[requirements.name]:
            with zipfile.ZipFile(folder / name, "w") as archive:
                archive.writestr("uv-1.data/scripts/uv", "the program")


def made(
    folder: Path, index: Index, *, content: str = "one", lock: str = "one==1\n", installer: str = "uv==1\n"
) -> ControlBundle:
    package = folder / "package"
    package.mkdir(exist_ok=True)
    (package / "__init__.py").write_text(content)
    (folder / "lock.txt").write_text(lock)
    (folder / "uv.txt").write_text(installer)
    locks = folder / "lock.txt", folder / "uv.txt"
    return control_bundle.make(*locks, package, {}, index, folder / "cache", lambda _: None)


def test_it_has_the_program_that_installs_the_lock_and_the_wheels(tmp_path: Path) -> None:
    bundle = made(tmp_path, Index("uv-1-py3-none-any.whl"))
    with tarfile.open(bundle.file) as archive:
        names = archive.getnames()
        assert names[:2] == ["uv", "requirements.txt"]
        assert archive.getmember("uv").mode == 0o755
        listed = archive.extractfile("requirements.txt")
        assert listed
        assert listed.read().decode().split() == ["one==1", f"./{names[2]}"]
    assert names[2].startswith("wheels/hermesops-")
    assert names[3:] == ["wheels/one-1-py3-none-any.whl"], "uv installs, and is not installed"


def test_it_is_made_once_for_each_version(tmp_path: Path) -> None:
    index = Index("uv-1-py3-none-any.whl")
    first = made(tmp_path, index)
    assert made(tmp_path, index) == first
    assert index.asked == 1
    others = (made(tmp_path, index, **{part: "#"}).version for part in ("content", "lock", "installer"))
    assert len({first.version, *others}) == 4


def test_a_lock_without_uv_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokenInvariantError, match="uv"):
        made(tmp_path, Index("other-1-py3-none-any.whl"))


def test_our_own_wheel_is_the_package_that_runs_here(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    shipped = {"roles": assets.folder("roles")}
    first, second = (own_wheel.write(tmp_path / name, PACKAGE, shipped) for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert "hermesops/_shipped/roles/hermes_base/README.md" in archive.namelist()
        assert not [name for name in archive.namelist() if "__pycache__" in name]
    code = "import hermesops.cli.main, importlib.metadata as m; print(hermesops.__file__, m.version('hermesops'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(first), "PATH": os.defpath, "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(str(first))


@pytest.mark.parametrize(
    ("name", "chosen"),
    [
        ("hermesops.txt", ["--no-dev", "--extra=roles", "--extra=billing", "--extra=platform"]),  # roles, bills, serves
        ("uv.txt", ["--only-group=bundle"]),
    ],
)
def test_the_locks_of_the_platforms_host_are_those_of_this_version(name: str, chosen: list[str]) -> None:
    lock = PACKAGE.parent / "uv.lock"
    if not lock.exists():
        pytest.skip("an installed wheel has no uv.lock")
    command = ["uv", "export", "--frozen", *chosen, "--no-emit-project", "--no-header", "--no-annotate", "--quiet"]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("uv")), *command[1:]],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    file = assets.folder("images") / "hermes-platform" / "locks" / name
    assert done.stdout == file.read_text(), f"run: {' '.join(command)} > {file.relative_to(PACKAGE.parent)}"
