"""A file of rules is read, checked and made ready for a server; what is wrong with it is told with its line."""

import yaml

from hermesops.observability.alerts import rules
from hermesops.observability.alerts.rules import deployed, problems, scaled, scaled_query
from tests.support.suite.cases import each_case

GOOD = """---
groups:
  - name: machines
    interval: 5s
    rules:
      - record: hermesops:silence_timeout:seconds
        expr: vector(90)
      - alert: Silent
        expr: time() - hermes_seen > scalar(hermesops:silence_timeout:seconds)
        for: 1m30s
        labels: {severity: page, owner: agents, scope: instance}
        annotations:
          summary: It is silent
          figure: "{{ $value }} s"
          runbook_url: runbooks/machine-gone.md
"""


def test_a_good_file_has_no_problems() -> None:
    assert problems(GOOD, "a.yml", {"machine-gone"}, {"hermesops:silence_timeout:seconds"}) == []


def test_its_alerts_are_found() -> None:
    (alert,) = rules.alert_rules(GOOD, "a.yml")
    assert (alert.name, alert.severity, alert.line, alert.runbook) == ("Silent", "page", 8, "machine-gone")
    assert rules.records(GOOD) == {"hermesops:silence_timeout:seconds"}


@each_case(
    ("before", "after", "line", "what"),
    [
        ("groups:", "groups: [", 3, "not YAML"),
        ("groups:", "group:", 2, "missing list “groups:”"),
        ("name: machines", "limit: 5", 3, "a group needs a name"),
        ("interval: 5s", "interval: 5", 4, "interval: “5” is no duration"),
        ("for: 1m30s", "for: soon", 10, "for: “soon” is no duration"),
        ("for: 1m30s", "fro: 1m30s", 10, "“fro” is none of alert"),
        ("alert: Silent", "alert: silent machine", 8, "“silent machine” is no name of an alert"),
        ("alert: Silent", "alert: Silent\n        record: a:b", 8, "either “alert:” or “record:”"),
        ("expr: vector(90)", "labels: {}", 6, "a rule needs “expr:”"),
        ("severity: page, ", "", 8, "Silent lacks label severity"),
        ("owner: agents, ", "", 8, "Silent lacks label owner"),
        ("severity: page", "severity: critical", 8, "severity is one of none, page, ticket"),
        ("scope: instance", "scope: machine", 8, "scope is one of cell, fleet, instance"),
        ("summary: It is silent", "summary: ''", 8, "Silent lacks annotation summary"),
        ('figure: "{{ $value }} s"', "text: x", 8, "Silent lacks annotation figure"),
        ("runbooks/machine-gone.md", "https://example.com/", 8, "runbook_url is runbooks/NAME.md"),
        ("runbooks/machine-gone.md", "runbooks/machine-lost.md", 8, "there is no runbook runbooks/machine-lost.md"),
        ("scalar(hermesops:silence", "scalar(hermesops:silent", 8, "no rule records hermesops:silent_timeout:seconds"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(before: str, after: str, line: int, what: str) -> None:
    assert before in GOOD
    rule_problems = problems(
        GOOD.replace(before, after, 1), "a.yml", {"machine-gone"}, {"hermesops:silence_timeout:seconds"}
    )
    assert any(problem.line == line and what in problem.message for problem in rule_problems), rule_problems
    assert str(rule_problems[0]).startswith("a.yml:")


def test_an_alert_that_is_there_twice_is_told_with_both_lines() -> None:
    (problem,) = problems(GOOD + GOOD.split("    rules:\n")[1], "a.yml")
    assert (problem.line, problem.message) == (18, "Silent instance page is there twice: line 8 as well")


@each_case("text", ["", "- a", "groups: 1", "groups: [1]", "groups: [{rules: [1]}]", "a: &a [*a]", "\0"])
def test_what_is_no_file_of_rules_is_told(text: str) -> None:
    assert problems(text, "a.yml")
    assert rules.alert_rules(text, "a.yml") == ()


@each_case(
    ("duration", "scale", "result"),
    [
        ("90s", 1, "90s"),
        ("1m30s", 0.05, "4500ms"),
        ("1d", 0.05, "4320s"),
        ("5s", 0.05, "250ms"),
        ("1ms", 0.05, "1ms"),
        ("0s", 0.05, "0s"),
        ("1h", 2, "7200s"),
    ],
)
def test_a_duration_is_scaled(duration: str, scale: float, result: str) -> None:
    assert scaled(duration, scale) == result


def test_every_time_of_a_query_is_scaled_and_no_text() -> None:
    query = """rate(a{b=~"[5m] offset 5m"}[5m] offset 1h) + max_over_time(c[1h:30s]) - d[10m:] + e offset -1m"""
    assert scaled_query(query, 0.5) == (
        """rate(a{b=~"[5m] offset 5m"}[150s] offset 1800s) + max_over_time(c[1800s:15s]) - d[300s:] + e offset -30s"""
    )


def test_a_server_gets_scaled_times_and_whole_addresses() -> None:
    (group,) = yaml.safe_load(deployed(GOOD, scale=0.1, runbooks_url="https://example.com/runbooks/"))["groups"]
    record, alert = group["rules"]
    assert (group["interval"], record["expr"], alert["for"]) == ("500ms", "vector(9)", "9s")
    assert alert["annotations"]["runbook_url"] == "https://example.com/runbooks/machine-gone.md"
    assert alert["annotations"]["figure"] == "{{ $value }} s"


def test_shortened_times_have_no_alert_wait_for_hours() -> None:
    waits = GOOD.replace("for: 1m30s", "for: 1d")
    assert waits != GOOD
    shortened = yaml.safe_load(deployed(waits, scale=0.2, runbooks_url=""))["groups"][0]["rules"][1]
    stretched = yaml.safe_load(deployed(waits, scale=2, runbooks_url=""))["groups"][0]["rules"][1]
    assert (shortened["for"], stretched["for"]) == ("180s", "172800s")


def test_without_a_base_addresses_stay() -> None:
    assert yaml.safe_load(deployed(GOOD, scale=1, runbooks_url="")) == yaml.safe_load(GOOD)
