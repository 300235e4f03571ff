"""uv as releases are resolved by, on an index of one folder."""

import zipfile
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.image.packages.download import NEWEST_GLIBC
from hermesops.machines.release.builder.resolver import Resolver
from hermesops.machines.release.requirements import parse


def _wheel(folder: Path, name: str, version: str, *, needs: str = "", tag: str = "py3-none-any") -> None:
    info = f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(folder / f"{name}-{version}-{tag}.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", about + (f"Provides-Extra: web\nRequires-Dist: {needs}\n" if needs else ""))
        wheel.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nTag: {tag}\n")
        wheel.writestr(f"{info}/RECORD", "")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A folder with an agent, what its extra needs, and that for one Python only."""
    folder = tmp_path / "index"
    folder.mkdir()
    _wheel(folder, "agent", "1.0", needs='native; extra == "web"')
    _wheel(folder, "native", "2.0", tag="cp312-cp312-manylinux_2_28_x86_64")
    return folder


@pytest.fixture
def resolver(index: Path, tmp_path: Path) -> Resolver:
    settings = tmp_path / "uv.toml"
    settings.write_text(f'[pip]\nno-index = true\nfind-links = ["{index}"]\n')
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "UV_CONFIG_FILE": str(settings)}
    return Resolver({**environ, "UV_CACHE_DIR": str(tmp_path / "cache")}, glibc=NEWEST_GLIBC)


def test_the_whole_set_is_found_for_a_python_that_is_not_ours(resolver: Resolver) -> None:
    pins = parse(resolver.resolve("agent[web]==1.0", "3.12"))
    assert [(pin.name, pin.version, len(pin.hashes)) for pin in pins] == [("agent", "1.0", 1), ("native", "2.0", 1)]


def test_what_needs_a_compiler_or_another_python_is_refused(resolver: Resolver) -> None:
    with pytest.raises(RefusedError, match=r"no set of packages for agent\[web\]==1\.0 on Python 3\.11"):
        resolver.resolve("agent[web]==1.0", "3.11")


def test_a_version_that_nobody_has_is_refused(resolver: Resolver) -> None:
    with pytest.raises(RefusedError, match=r"agent==9\.9"):
        resolver.resolve("agent==9.9", "3.12")


def test_a_wheel_beside_the_index_is_found(resolver: Resolver, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    _wheel(own, "agent", "1.1")
    assert [pin.version for pin in parse(resolver.resolve("agent==1.1", "3.11", wheels=own))] == ["1.1"]


def test_an_index_that_does_not_answer_is_said_to_be(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "UV_HTTP_TIMEOUT": "1", "UV_HTTP_RETRIES": "0"}
    nobody = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_CACHE_DIR": str(tmp_path / "cache")}
    with pytest.raises(UnavailableError, match="could not ask the package index"):
        Resolver({**environ, **nobody}, glibc=NEWEST_GLIBC).resolve("agent==1.0", "3.12")
