"""Every role says what it takes, and its defaults say the same."""

from typing import Any

import yaml

from hermesops.base import assets
from tests.support.suite.cases import each_case

_ROLES = sorted(path.name for path in assets.folder("roles").iterdir() if path.is_dir())


def options(role: str) -> dict[str, dict[str, Any]]:
    specs = yaml.safe_load((assets.folder("roles") / role / "meta/argument_specs.yml").read_text())
    options: dict[str, dict[str, Any]] = specs["argument_specs"]["main"]["options"]
    return options


def defaults(role: str) -> dict[str, Any]:
    path = assets.folder("roles") / role / "defaults/main.yml"
    return yaml.safe_load(path.read_text()) or {} if path.exists() else {}


@each_case("role", _ROLES)
def test_defaults_are_those_of_the_specification(role: str) -> None:
    specified = {name: option["default"] for name, option in options(role).items() if "default" in option}
    assert defaults(role) == specified


@each_case("role", _ROLES)
def test_each_variable_is_required_or_has_a_default(role: str) -> None:
    required = {name for name, option in options(role).items() if option.get("required")}
    assert required.isdisjoint(defaults(role))
    assert required | defaults(role).keys() == options(role).keys()


@each_case("role", _ROLES)
def test_variables_bear_the_roles_name(role: str) -> None:
    assert all(name.startswith(f"{role}_") for name in options(role))


@each_case("role", _ROLES)
def test_a_role_has_a_readme_that_names_what_is_required(role: str) -> None:
    readme = (assets.folder("roles") / role / "README.md").read_text()
    assert not [name for name, option in options(role).items() if option.get("required") and name not in readme]
