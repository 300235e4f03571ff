"""A role's argument specs and its defaults say the same."""

from pathlib import Path
from typing import Any

import yaml

from hermesops.base import assets
from tests.support.suite.cases import each_case

ROLES = sorted(path for path in assets.folder("roles").iterdir() if (path / "tasks").is_dir())


def _options(role: Path) -> dict[str, dict[str, Any]]:
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())
    options: dict[str, dict[str, Any]] = specs["argument_specs"]["main"].get("options", {})
    return options


def _defaults(role: Path) -> dict[str, Any]:
    path = role / "defaults/main.yml"
    return (yaml.safe_load(path.read_text()) or {}) if path.exists() else {}


@each_case("role", ROLES, ids=lambda role: role.name)
def test_defaults_are_what_the_specs_promise(role: Path) -> None:
    promised = {name: option["default"] for name, option in _options(role).items() if "default" in option}
    assert _defaults(role) == promised


@each_case("role", ROLES, ids=lambda role: role.name)
def test_every_option_is_required_or_has_a_default(role: Path) -> None:
    unclear = [n for n, option in _options(role).items() if bool(option.get("required")) == ("default" in option)]
    assert unclear == []


@each_case("role", ROLES, ids=lambda role: role.name)
def test_every_option_carries_the_roles_name(role: Path) -> None:
    assert [name for name in _options(role) if not name.startswith(f"{role.name}_")] == []
