"""What Prometheus is asked."""

from hermesops.agents.health.promql import DEFAULTS, is_metric
from hermesops.model.fleet.vitals import Vital
from hermesops.model.ids import InstanceId
from tests.support.suite.cases import each_case


@each_case("vital", Vital)
def test_every_figure_is_asked_for_by_instance(vital: Vital) -> None:
    promql = DEFAULTS[vital].promql([InstanceId("b-2"), InstanceId("a.1")], 90)
    assert r'instance_id=~"a\\.1|b\\-2"' in promql
    assert "[90s]" in promql
    assert "$" not in promql
    assert DEFAULTS[vital].metric in promql


@each_case(("name", "can_be"), [("up", True), ("a:b_c1", True), ("1a", False), ("a-b", False), ("", False)])
def test_names_of_metrics(name: str, can_be: bool) -> None:  # noqa: FBT001 - what is expected
    assert is_metric(name) == can_be
