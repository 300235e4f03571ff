from typing import Any

from hermesops.infra.engine.embedded.protocol.plugin import Difference, Differs
from hermesops.infra.engine.embedded.protocol.values import Property, Secret
from hermesops.infra.engine.embedded.run.decide import Way, compare, decide
from hermesops.infra.engine.embedded.state.deployment import Resource
from tests.support.suite.cases import each_case

URN = "urn:pulumi:dev::rec::justavps:index:Machine::m"


def old(**more: Any) -> Resource:  # noqa: ANN401  fields of a resource
    return Resource(urn=URN, type="justavps:index:Machine", custom=True, id="1", **more)


@each_case(
    ("difference", "option", "way"),
    [
        (Difference(Differs.NO), None, Way.SAME),
        (Difference(Differs.YES, diffs=("size",)), None, Way.UPDATE),
        (Difference(Differs.YES, replaces=("region",)), None, Way.REPLACE_NEW_FIRST),
        (Difference(Differs.YES, replaces=("region",), delete_first=True), None, Way.REPLACE_OLD_FIRST),
        (Difference(Differs.YES, replaces=("region",)), True, Way.REPLACE_OLD_FIRST),
        (Difference(Differs.YES, replaces=("region",), delete_first=True), False, Way.REPLACE_NEW_FIRST),
        (Difference(Differs.UNKNOWN), None, Way.SAME),
    ],
)
def test_the_provider_says_and_the_program_overrules(difference: Difference, option: bool | None, way: Way) -> None:  # noqa: FBT001
    assert decide(old(), {}, difference, delete_first=option).way is way


def test_half_made_things_are_updated_even_when_nothing_differs() -> None:
    half = old(init_errors=("not ready",))
    for difference in (Difference(Differs.NO), Difference(Differs.UNKNOWN)):
        assert decide(half, {}, difference, delete_first=None).way is Way.UPDATE


def test_a_provider_that_does_not_know_leaves_it_to_the_engine() -> None:
    before = old(inputs={"size": "s", "tags": {"a": "1"}})
    decision = decide(
        before, {"size": "s", "tags": {"a": "2"}, "note": "n"}, Difference(Differs.UNKNOWN), delete_first=None
    )
    assert decision.way is Way.UPDATE
    assert decision.diffs == ("note", "tags")
    assert dict(decision.detailed or {}) == {
        "note": {"diffKind": "add", "inputDiff": True},
        "tags.a": {"diffKind": "update", "inputDiff": True},
    }


@each_case(
    ("before", "after", "paths"),
    [
        ({"a": 1}, {"a": 1.0}, {}),
        ({"a": True}, {"a": 1}, {"a": "update"}),
        ({"a": [1, 2]}, {"a": [1]}, {"a[1]": "delete"}),
        ({"a": [1]}, {"a": [1, {"b": 2}]}, {"a[1]": "add"}),
        ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}, {"a[0].b": "update"}),
        ({"a": None}, {}, {"a": "delete"}),
        ({"a": {"b": 1}}, {"a": "x"}, {"a": "update"}),
        ({"a": Secret("x")}, {"a": Secret("x")}, {}),
        ({"a": Secret("x")}, {"a": Secret("y")}, {"a": "update"}),
        ({"a": Secret("x")}, {"a": "x"}, {"a": "update"}),
    ],
)
def test_differences_are_named_by_path(
    before: dict[str, Property], after: dict[str, Property], paths: dict[str, str]
) -> None:
    assert {path: difference["diffKind"] for path, difference in compare(before, after).items()} == paths
