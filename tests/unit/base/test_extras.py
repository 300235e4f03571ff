"""What not everybody installs: the list of ``pyproject.toml``, and the error where some of it is missing."""

import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging import requirements

from hermesops.base import extras
from hermesops.base.extras import Extra, install_command, require
from hermesops.errors import UsageError

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
TWO = ["pydantic>=2", "nothing-like-it>=1; extra == 'aws'", "pydantic; extra == 'aws'", "nor-this; extra == 'local'"]


def test_extras_are_those_of_the_project_and_all_is_every_one() -> None:
    declared = PROJECT["optional-dependencies"]
    assert declared.keys() - {"all"} == set(Extra)
    assert declared["all"] == ["hermesops[aws,billing,build,console,local,platform]"]
    assert "hermesops[roles]" in declared["build"]


def test_a_checkout_has_them_all() -> None:
    for extra in Extra:
        require(extra, "a test")


def test_one_that_lacks_a_package_is_named_with_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "requires", lambda _: TWO)
    with pytest.raises(UsageError) as caught:
        require(Extra.AWS, "stack up platform")
    assert caught.value.message == (
        "stack up platform needs extra aws of hermesops, which is not installed here (missing: nothing-like-it)"
    )
    assert str(caught.value.hint) == f"run: {sys.executable} -m pip install 'hermesops[aws]'"


def test_where_pip_is_missing_uv_installs_into_this_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda _: None)
    assert install_command(Extra.ROLES) == ["uv", "pip", "install", "--python", sys.executable, "hermesops[roles]"]


def test_each_extra_has_packages_in_the_installed_metadata() -> None:
    markers = " ".join(metadata.requires("hermesops") or ())
    for extra in Extra:
        assert f"extra == '{extra}'" in markers


def test_a_line_of_the_metadata_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []

    class Counted(requirements.Requirement):
        def __init__(self, line: str) -> None:
            parsed.append(line)
            super().__init__(line)

    line = "pydantic>=0.0.1; extra == 'aws'"
    monkeypatch.setattr(requirements, "Requirement", Counted)
    monkeypatch.setattr(metadata, "requires", lambda _: [line])
    for _ in range(3):
        require(Extra.AWS, "a test")
    assert parsed == [line]
