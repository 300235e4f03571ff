"""pip as the image build uses it, on an index of one folder."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.image.packages.download import Pip

pytestmark = pytest.mark.turns(5)


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder with one package for every machine and one that needs an older Python than ours."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name, tag in (("plain", "py3-none-any"), ("native", "cp312-cp312-manylinux_2_28_x86_64")):
        with zipfile.ZipFile(folder / f"{name}-1.0-{tag}.whl", "w") as wheel:
            wheel.writestr(f"{name}-1.0.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{name}-1.0.dist-info/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
            wheel.writestr(f"{name}-1.0.dist-info/RECORD", "")
    return folder


@pytest.fixture
def pip(index: Path, tmp_path: Path) -> Pip:
    return Pip(
        {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)},
        tmp_path / "cache",
    )


def _locked(tmp_path: Path, wheel: Path, digest: str = "") -> Path:
    lock = tmp_path / "lock.txt"
    name = wheel.name.partition("-")[0]
    lock.write_text(f"{name}==1.0 --hash=sha256:{digest or hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return lock


@pytest.mark.parametrize(("package", "python"), [("plain", "3.13"), ("native", "3.12")])
def test_wheels_of_another_python_than_ours_are_fetched(
    pip: Pip, index: Path, tmp_path: Path, package: str, python: str
) -> None:
    wheel = next(index.glob(f"{package}-*"))
    pip.wheels(_locked(tmp_path, wheel), tmp_path / "out", python=python)
    assert [path.name for path in (tmp_path / "out").iterdir()] == [wheel.name]


def test_a_wheel_of_another_hash_is_refused(pip: Pip, index: Path, tmp_path: Path) -> None:
    lock = _locked(tmp_path, next(index.glob("plain-*")), "0" * 64)
    with pytest.raises(RefusedError, match="something else than"):
        pip.wheels(lock, tmp_path / "out", python="3.11")
    assert not list(tmp_path.glob("out/*.whl"))


def test_a_wheel_that_is_not_offered_for_that_python_is_named(pip: Pip, index: Path, tmp_path: Path) -> None:
    lock = _locked(tmp_path, next(index.glob("native-*")))
    with pytest.raises(UnavailableError, match=r"native==1\.0"):
        pip.wheels(lock, tmp_path / "out", python="3.11")


def test_what_was_fetched_once_is_taken_from_the_cache_for_that_python_unless_it_is_damaged(
    pip: Pip, index: Path, tmp_path: Path
) -> None:
    plain, native = (next(index.glob(f"{name}-*")) for name in ("plain", "native"))
    lock = _locked(tmp_path, plain)
    lock.write_text(lock.read_text() + _locked(tmp_path / "index", native).read_text())
    pip.wheels(lock, tmp_path / "first", python="3.12")
    content = plain.read_bytes()
    plain.unlink()
    native.unlink()
    pip.wheels(lock, tmp_path / "second", python="3.12")
    assert {file.name: file.read_bytes() for file in (tmp_path / "second").iterdir()}[plain.name] == content
    with pytest.raises(UnavailableError, match=r"plain==1\.0"):
        pip.wheels(lock, tmp_path / "other", python="3.13")
    next((tmp_path / "cache").glob(f"*/*/{plain.name}")).write_bytes(b"damaged")
    with pytest.raises(UnavailableError, match=r"plain==1\.0"):
        pip.wheels(lock, tmp_path / "third", python="3.12")
