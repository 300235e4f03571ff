"""Conditions of silences on alerts' labels, as Alertmanager has them."""

from hermesops.model.fleet.alert import Matcher


def test_a_matcher_takes_as_alertmanager_does() -> None:
    labels = {"alertname": "GatewayDown", "cell": "cell1"}
    cases = {
        Matcher("alertname", "GatewayDown"): True,
        Matcher("alertname", "Gateway"): False,
        Matcher("alertname", "Gateway.*", is_regex=True): True,
        Matcher("alertname", "Gateway", is_regex=True): False,
        Matcher("cell", "cell1|cell2", is_regex=True): True,
        Matcher("cell", "cell2", is_equal=False): True,
        Matcher("cell", "cell1", is_equal=False): False,
        Matcher("user", ""): True,
        Matcher("user", "ada"): False,
    }
    assert {matcher: matcher.takes(labels) for matcher in cases} == cases
