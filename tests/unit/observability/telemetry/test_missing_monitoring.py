"""Without monitoring a command says how there would be some, here."""

from pathlib import Path

import pytest

from hermesops.app import Container
from hermesops.errors import UsageError
from hermesops.settings.environment import Environment
from tests.support.fakes.parts import part


def hint(home: Path, name: str, *, is_simulated: bool = False) -> str:
    given = {"HOME": str(home), "HERMESOPS_HOME": str(home)}
    if name != "local":
        given |= {"HERMESOPS_API_URL": "https://api.example.org/api/v1"}
    container = Container(Environment.load(name, given), lambda _: None)
    vars(container)["adapters"] = part(is_simulated=is_simulated)
    with pytest.raises(UsageError, match=f"environment {name} has no monitoring") as refused:
        container.require_monitoring()
    return str(refused.value.hint)


def test_a_local_world_is_told_the_command_that_brings_monitoring(tmp_path: Path) -> None:
    assert hint(tmp_path, "local").startswith("hermesops local up --monitoring")


def test_where_that_command_is_refused_the_setting_is_named(tmp_path: Path) -> None:
    for name, is_simulated in (("local", True), ("staging", False)):
        assert hint(tmp_path, name, is_simulated=is_simulated) == "set monitoring.url to https://HOST:PORT"
