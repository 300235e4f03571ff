"""Parameters in hints: data that each face spells in its own way, and options of commands."""

import ast
from pathlib import Path

import pytest

import hermesops
from hermesops.cli import console
from hermesops.errors import Hint, Parameter, UsageError
from hermesops.views.failures import failure as failure_shape

SOURCE = Path(hermesops.__file__).parent
REFERENCE = SOURCE.parent / "runbooks" / "reference"


def test_a_command_spells_a_parameter_as_an_option() -> None:
    hint = Hint("give either", Parameter("onto_new_machine"), "or", Parameter("quiet_hours", "22-07"))
    assert str(hint) == "give either --onto-new-machine or --quiet-hours 22-07"
    assert hint.commands() == []
    assert hint.put(USER="ada") == hint
    assert Hint(hint, ";", ("instance", "list")).commands() == ["hermesops instance list"]


def test_each_parameter_of_a_hint_is_an_option_of_a_command() -> None:
    reference = "\n".join(page.read_text() for page in REFERENCE.glob("*.md"))
    named = {
        node.args[0].value
        for file in SOURCE.rglob("*.py")
        if "Parameter(" in (text := file.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "Parameter"
        and isinstance(node.args[0], ast.Constant)
    }
    assert {"quiet_hours", "reason", "region"} <= named
    assert [name for name in sorted(map(str, named)) if f"{Parameter(name).option()}" not in reference] == []


def test_a_command_puts_the_option_before_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    failure = UsageError("'x' does not read field=value", field="quiet_hours")
    console.complain(failure)
    assert capsys.readouterr().err == "error: --quiet-hours: 'x' does not read field=value\n"
    assert failure_shape(failure)["field"] == "quiet_hours"
    assert "field" not in failure_shape(UsageError("no"))
