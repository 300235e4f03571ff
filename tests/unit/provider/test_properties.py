"""What a machine that was seen becomes in the state."""

from google.protobuf.struct_pb2 import Struct

from hermesops.provider import properties, values
from hermesops.provider.machine import MACHINE
from hermesops.provider.ports import ObservedMachine
from hermesops.provider.values import SECRET, SIGNATURE, UNKNOWN

INPUTS = {"name": "n", "region": "hel1", "server_type": "starter", "image_id": "img"}
SEEN = ObservedMachine(id="1", name="n", status="ready", region="hel1", server_type="pro", slug="s", ip="192.0.2.1")


def test_what_the_vendor_says_counts_and_what_it_leaves_out_stays() -> None:
    assert properties.observed(MACHINE, INPUTS, SEEN) == INPUTS | {"server_type": "pro"}


def test_an_import_takes_all_inputs_from_the_machine() -> None:
    assert properties.observed(MACHINE, {}, SEEN) == {"name": "n", "region": "hel1", "server_type": "pro"}


def test_an_unchanged_secret_keeps_its_mark() -> None:
    marked = {SIGNATURE: SECRET, "value": "hel1"}
    assert properties.observed(MACHINE, INPUTS | {"region": marked}, SEEN)["region"] == marked


def test_outputs_hold_inputs_and_everything_computed() -> None:
    assert properties.outputs(MACHINE, INPUTS, SEEN) == INPUTS | {
        "server_type": "pro",
        "slug": "s",
        "status": "ready",
        "ip": "192.0.2.1",
        "port_template": "",
        "created_at": "",
    }


def test_a_preview_knows_the_inputs_only() -> None:
    expected = properties.expected(MACHINE, INPUTS)
    assert {n for n, v in expected.items() if v == UNKNOWN} == expected.keys() - INPUTS.keys()


def test_structs_are_read_as_written_without_nulls() -> None:
    deep = {"a": "x", "b": {"c": [1.0, True, {"d": "e"}]}, "s": {SIGNATURE: SECRET, "value": "v"}}
    assert values.read(values.write({**deep, "gone": None})) == deep
    struct = Struct()
    struct.update({"a": None, "b": "x"})
    assert values.read(struct) == {"b": "x"}
