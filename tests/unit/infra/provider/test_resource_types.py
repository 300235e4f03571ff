"""What inputs may be, what a change to them means, and what a machine that was observed becomes in the state."""

import json

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from hermesops.infra.provider import values
from hermesops.infra.provider.observation import ObservedMachine
from hermesops.infra.provider.resource_types import MACHINE, ChangeKind, schema
from hermesops.infra.provider.values import SECRET, SIGNATURE, UNKNOWN
from tests.support.suite.cases import each_case

check, compare, fill, INPUTS = MACHINE.check, MACHINE.compare, MACHINE.fill, MACHINE.inputs
NAME = "hermes-local-cell1-0123456789ab"
GOOD = {"name": NAME, "region": "hel1", "server_type": "starter", "image_id": "img"}


def test_a_machine_is_named_after_its_resource_unless_told_otherwise() -> None:
    assert fill({"region": "hel1"}, NAME)["name"] == NAME
    assert fill({"name": "other"}, NAME)["name"] == "other"


def test_good_inputs_pass() -> None:
    assert check(GOOD) == []
    assert check({key: value for key, value in GOOD.items() if key != "image_id"}) == []


@each_case(
    ("change", "named", "reason"),
    [
        ({"region": None}, "region", "missing"),
        ({"server_type": None}, "server_type", "missing"),
        ({"server_type": " "}, "server_type", "not empty"),
        ({"region": 3.0}, "region", "must be a text"),
        ({"image_id": ""}, "image_id", "not empty"),
        ({"name": "ada"}, "name", "hermes-<environment>"),
        ({"name": "hermes-local-cell1-0123"}, "name", "hermes-<environment>"),
        ({"sever_type": "pro"}, "sever_type", "no such property"),
    ],
)
def test_a_bad_input_is_named_with_its_reason(change: dict[str, object], named: str, reason: str) -> None:
    inputs = {key: value for key, value in (GOOD | change).items() if value is not None}
    (failure,) = check(inputs)
    assert failure.name == named
    assert reason in failure.reason


def test_what_is_unknown_in_a_preview_is_not_judged() -> None:
    assert check(GOOD | {"name": UNKNOWN, "image_id": UNKNOWN}) == []


def test_a_secret_is_judged_by_what_is_in_it() -> None:
    assert check(GOOD | {"region": {SIGNATURE: SECRET, "value": "hel1"}}) == []
    assert check(GOOD | {"region": {SIGNATURE: SECRET, "value": ""}}) != []


def test_a_size_is_changed_on_the_machine() -> None:
    difference = compare(GOOD, GOOD | {"server_type": "pro"})
    assert difference.changes == {"server_type": ChangeKind.UPDATE}
    assert difference.replaces == ()
    assert not difference.deletes_first


@pytest.mark.parametrize("name", ["region", "image_id"])
def test_what_the_vendor_cannot_change_needs_another_machine_after_this_one(name: str) -> None:
    difference = compare(GOOD, GOOD | {name: "other"})
    assert difference.replaces == (name,)
    assert difference.deletes_first


def test_a_machine_of_another_name_may_be_made_first() -> None:
    difference = compare(GOOD, GOOD | {"name": NAME[:-1] + "c", "region": "nbg1"})
    assert difference.replaces == ("name", "region")
    assert not difference.deletes_first


def test_an_image_that_comes_or_goes_is_a_replacement() -> None:
    bare = {key: value for key, value in GOOD.items() if key != "image_id"}
    assert compare(bare, GOOD).changes == {"image_id": ChangeKind.ADD}
    assert compare(GOOD, bare).changes == {"image_id": ChangeKind.DELETE}


def test_an_unknown_counts_as_different_even_from_itself() -> None:
    unknown = GOOD | {"image_id": UNKNOWN}
    assert compare(unknown, unknown).replaces == ("image_id",)


@given(st.dictionaries(st.sampled_from([p.name for p in INPUTS]), st.text(max_size=3)))
def test_equal_inputs_never_differ(inputs: dict[str, object]) -> None:
    secret = {key: {SIGNATURE: SECRET, "value": value} for key, value in inputs.items()}
    assert compare(inputs, dict(inputs)).changes == {}
    assert compare(inputs, secret).changes == {}


def test_the_schema_says_what_check_and_diff_do() -> None:
    resource = json.loads(schema("1.2.3"))["resources"][MACHINE.token]
    replacing = {n for n, p in resource["inputProperties"].items() if p.get("willReplaceOnChanges")}
    assert replacing == {name for name in GOOD if compare(GOOD, GOOD | {name: "x"}).replaces}
    missing = {name for name in GOOD if check({k: v for k, v in GOOD.items() if k != name})}
    assert set(resource["requiredInputs"]) == missing
    assert set(resource["inputProperties"]) < set(resource["properties"])


def test_what_is_said_with_the_order_alone_changes_no_machine_that_is_there() -> None:
    for before, after in ((GOOD, GOOD | {"data_gb": "40"}), (GOOD | {"data_gb": "40"}, GOOD | {"data_gb": "80"})):
        assert compare(before, after) == compare(GOOD, GOOD)
        assert not compare(before, after).changes


GIVEN = {"name": "n", "region": "hel1", "server_type": "starter", "image_id": "img"}
SEEN = ObservedMachine(id="1", name="n", status="ready", region="hel1", server_type="pro", slug="s", ip="192.0.2.1")


def test_what_the_vendor_says_counts_and_what_it_leaves_out_stays() -> None:
    assert MACHINE.observed(GIVEN, SEEN) == GIVEN | {"server_type": "pro"}


def test_an_import_takes_all_inputs_from_the_machine() -> None:
    assert MACHINE.observed({}, SEEN) == {"name": "n", "region": "hel1", "server_type": "pro"}


def test_an_unchanged_secret_keeps_its_mark() -> None:
    marked = {SIGNATURE: SECRET, "value": "hel1"}
    assert MACHINE.observed(GIVEN | {"region": marked}, SEEN)["region"] == marked


def test_outputs_hold_inputs_and_everything_computed() -> None:
    assert MACHINE.outputs(GIVEN, SEEN) == GIVEN | {
        "server_type": "pro",
        "slug": "s",
        "status": "ready",
        "ip": "192.0.2.1",
        "port_template": "",
        "created_at": "",
    }


def test_a_preview_knows_the_inputs_only() -> None:
    expected = MACHINE.outputs(GIVEN, None)
    assert {n for n, v in expected.items() if v == UNKNOWN} == expected.keys() - GIVEN.keys()


def test_structs_are_read_as_written_without_nulls() -> None:
    deep = {"a": "x", "b": {"c": [1.0, True, {"d": "e"}]}, "s": {SIGNATURE: SECRET, "value": "v"}}
    assert values.read(values.write({**deep, "gone": None})) == deep
    struct = Struct()
    struct.update({"a": None, "b": "x"})
    assert values.read(struct) == {"b": "x"}
