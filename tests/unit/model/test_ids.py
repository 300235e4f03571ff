"""Names that are read back must mean what was written."""

from uuid import uuid4

from hermesops.model.ids import (
    CellName,
    InstanceId,
    is_alias,
    is_machine_name,
    machine_name,
    user_id_from_alias,
    user_id_of,
)
from tests.support.suite.cases import each_case


def test_a_machines_name_is_of_our_scheme_in_its_own_environment_only() -> None:
    name = machine_name("local", CellName("cell1"), InstanceId(str(uuid4())))
    assert is_machine_name(name, "local")
    assert not is_machine_name(name, "production")


def test_two_instances_get_two_names() -> None:
    names = {machine_name("local", CellName("cell1"), InstanceId(str(uuid4()))) for _ in range(100)}
    assert len(names) == 100


@each_case("name", ["", "web-1", "hermes-local", "hermes-local-cell1-xyz", "hermes-local-cell1-"])
def test_foreign_names_are_left_alone(name: str) -> None:
    assert not is_machine_name(name, "local")


@each_case(("text", "alias"), [("ada", True), ("a-1", True), ("Ada", False), ("1a", False), ("", False)])
def test_what_can_be_an_alias(text: str, alias: object) -> None:
    assert is_alias(text) is alias


def test_an_alias_gives_the_same_user_every_time() -> None:
    assert user_id_from_alias("ada") == user_id_from_alias("ada") != user_id_from_alias("bob")


def test_a_user_id_is_read_in_any_spelling() -> None:
    assert user_id_of("{6F8D3C1A-5B1E-4A52-9D5C-0D7F5E0F8A11}") == "6f8d3c1a-5b1e-4a52-9d5c-0d7f5e0f8a11"
    assert user_id_of("ada") is None
