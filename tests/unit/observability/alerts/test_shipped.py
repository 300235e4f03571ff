"""The rules, routes and dashboards that are deployed: complete, and in step with runbooks and with each other."""

import re

import pytest
import yaml

from hermesops.base import assets
from hermesops.observability.alerts import routing, rules
from hermesops.observability.runbook.document import names
from tests.support.alerts import promtool

ALERTS = promtool.all_rules()
RUNBOOKS = names(assets.folder("runbooks"))
TEMPLATE = (assets.folder("roles") / "hermes_platform_monitoring/templates/alertmanager.yml.j2").read_text()


def test_nothing_is_wrong_with_any_file_and_every_runbook_is_there() -> None:
    known = {name for path in promtool.files() for name in rules.records(path.read_text())}
    problems = [
        problem for path in promtool.files() for problem in rules.problems(path.read_text(), str(path), RUNBOOKS, known)
    ]
    assert not problems, "\n".join(map(str, problems))


def test_no_alert_is_in_two_files() -> None:
    keys = [(alert_rule.name, alert_rule.labels["scope"], alert_rule.severity) for alert_rule in ALERTS]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("variables", [routing.WITHOUT_RECEIVERS, routing.WITH_RECEIVERS])
def test_routes_and_receivers_fit(variables: dict[str, object]) -> None:
    assert routing.problems(routing.rendered(TEMPLATE, variables), "alertmanager.yml") == []


def test_what_inhibits_and_is_inhibited_is_an_alert() -> None:
    patterns = {
        pattern
        for rule in yaml.safe_load(routing.rendered(TEMPLATE, routing.WITHOUT_RECEIVERS))["inhibit_rules"]
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
        if matcher.startswith("alertname")
        for pattern in matcher.split('"')[1].split("|")
    }
    assert [pattern for pattern in patterns if not any(re.fullmatch(pattern, alert.name) for alert in ALERTS)] == []


def test_a_route_without_a_receiver_is_told_with_its_line() -> None:
    text = "route:\n  receiver: a\n  routes:\n    - receiver: b\nreceivers:\n  - name: a\n  - name: c\n"
    assert [str(problem) for problem in routing.problems(text, "a.yml")] == [
        "a.yml:4: no receiver is named b",
        "a.yml:7: no route leads to receiver c",
    ]
