import json

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from hermesops.infra.engine.embedded.protocol.values import (
    OUTPUT,
    SECRET,
    SIGNATURE,
    UNKNOWN,
    Property,
    Secret,
    from_state,
    from_wire,
    has_asset,
    has_secret,
    has_unknown,
    marked_again,
    masked,
    revealed,
    to_state,
    to_wire,
    with_secret_outputs,
)
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault


class OpenVault(PassphraseVault):
    """Turns text around; counts how often it was asked."""

    def __init__(self) -> None:
        super().__init__(str, salt="", keys={}, stack="dev")
        self.opened = 0

    def encrypt(self, plaintext: str) -> str:
        return plaintext[::-1]

    def decrypt(self, ciphertext: str) -> str:
        self.opened += 1
        return ciphertext[::-1]


SCALARS = st.sampled_from([None, True, 0, -1, 2**53, 0.5, -1e300, "", "text", "\x00é", "1"])
KEYS = st.sampled_from(["a", "b", "a.b", ""])


def nested(leaves: st.SearchStrategy[Property]) -> st.SearchStrategy[Property]:
    return st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=6
    )


PLAIN = nested(SCALARS)
PROPERTIES = st.dictionaries(KEYS, nested(SCALARS | PLAIN.map(Secret)), max_size=3)


@given(PROPERTIES)
def test_what_goes_over_the_wire_comes_back(properties: dict[str, Property]) -> None:
    sent = Struct.FromString(to_wire(properties, OpenVault(), secrets=True).SerializeToString())
    assert from_wire(sent) == properties


@given(PROPERTIES)
def test_what_goes_into_the_state_comes_back(properties: dict[str, Property]) -> None:
    vault = OpenVault()
    read = from_state(json.loads(json.dumps(to_state(properties, vault))))
    assert revealed(read, vault) == revealed(properties, vault)
    assert has_secret(read) == has_secret(properties)


@given(PROPERTIES)
def test_a_plugin_that_knows_no_secrets_gets_bare_values(properties: dict[str, Property]) -> None:
    vault = OpenVault()
    assert from_wire(to_wire(properties, vault, secrets=False)) == revealed(properties, vault)


def test_a_secret_of_the_state_is_opened_once_and_only_when_needed() -> None:
    vault = OpenVault()
    value = from_state({"a": {SIGNATURE: SECRET, "ciphertext": '"neddih"'}})
    assert to_state(value, vault)["a"]["ciphertext"] == '"neddih"'
    assert vault.opened == 0
    assert revealed(value, vault) == revealed(value, vault) == {"a": "hidden"}
    assert vault.opened == 1
    assert "hidden" not in repr(value)


def test_an_unopened_secret_equals_only_its_own_ciphertext() -> None:
    assert Secret(ciphertext="x") == Secret(ciphertext="x")
    assert Secret(ciphertext="x") != Secret(ciphertext="y")
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_whole_numbers_stay_whole_and_huge_ones_do_not() -> None:
    wire = to_wire({"one": 1, "half": 0.5, "huge": 1e21}, OpenVault(), secrets=True)
    assert json.dumps(from_wire(wire), sort_keys=True) == '{"half": 0.5, "huge": 1e+21, "one": 1}'


def test_unknowns_are_found_and_shown_as_words() -> None:
    deep = {"a": [{"b": UNKNOWN}], "c": Secret("x")}
    assert has_unknown(deep)
    assert not has_unknown({"a": [1, "x"]})
    assert has_unknown(Secret([UNKNOWN]))
    assert masked(deep) == {"a": [{"b": "[unknown]"}], "c": "[secret]"}


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ({"value": "x"}, "x"),
        ({"value": "x", "secret": True}, Secret("x")),
        ({}, UNKNOWN),
    ],
)
def test_output_values_are_unwrapped(mark: dict[str, Property], expected: Property) -> None:
    struct = Struct()
    struct.update({"p": {SIGNATURE: OUTPUT, **mark}})
    assert from_wire(struct)["p"] == expected


def test_assets_are_noticed_anywhere() -> None:
    asset = {SIGNATURE: "c44067f5952c0a294b673a41bacd8c17", "path": "x"}
    assert has_asset({"a": [asset]})
    assert not has_asset({"a": [{"path": "x"}]})


def test_other_objects_are_no_properties() -> None:
    with pytest.raises(TypeError, match="object"):
        to_wire({"a": object()}, OpenVault(), secrets=True)


def test_outputs_are_secret_where_the_input_of_that_name_is() -> None:
    outputs = with_secret_outputs({"a": "1", "b": "2", "c": Secret("3")}, {"a": Secret("1"), "b": "2"}, ())
    assert outputs == {"a": Secret("1"), "b": "2", "c": Secret("3")}


def test_outputs_are_secret_where_the_program_names_them() -> None:
    assert with_secret_outputs({"a": "1", "b": "2"}, {}, ("b",)) == {"a": "1", "b": Secret("2")}


def test_marks_come_back_at_their_places() -> None:
    sent = {"a": Secret("x"), "b": {"c": Secret("y"), "d": "z"}, "e": ["p", Secret("q")]}
    bare = {"a": "x", "b": {"c": "y", "d": "z"}, "e": ["p", "q", "r"], "new": "n"}
    assert marked_again(bare, sent) == {**sent, "e": ["p", Secret("q"), "r"], "new": "n"}
