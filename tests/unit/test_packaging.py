"""Two folders at the top bear the names of packages we use; they must never become packages themselves."""

import tomllib
from pathlib import Path

import ansible
import pulumi
import pytest

from hermesops import __version__
from hermesops.base import assets
from tests.support.suite.cases import each_case

TOP = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["pulumi", "ansible"])
def test_a_folder_named_like_a_package_is_none(name: str) -> None:
    assert (TOP / name).is_dir()
    assert [p for p in (TOP / name).rglob("__init__.py") if "_plugins" not in p.parts] == []


def test_the_packages_are_the_installed_ones() -> None:
    assert "site-packages" in str(pulumi.__file__)
    assert "site-packages" in str(ansible.__file__)


@each_case("name", ["roles", "ansible", "pulumi", "images", "runbooks"])
def test_a_checkouts_folders_are_the_ones_being_edited(name: assets.Folder) -> None:
    assert assets.folder(name) == TOP / name


def test_the_wheel_carries_every_folder_that_is_looked_for() -> None:
    metadata = tomllib.loads((TOP / "pyproject.toml").read_text())
    carried = metadata["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert carried == {name: f"hermesops/_shipped/{name}" for name in assets.Folder.__args__}  # type: ignore[attr-defined]


def test_the_version_is_written_alike_in_both_places() -> None:
    metadata = tomllib.loads((TOP / "pyproject.toml").read_text())
    assert metadata["project"]["version"] == __version__


def test_tests_are_no_package() -> None:
    assert list((TOP / "tests").rglob("__init__.py")) == []
