"""A dashboard is read into panels and queries; what is wrong with it is told with its line."""

import json
from typing import Any

from hermesops.observability.alerts import dashboards
from hermesops.observability.alerts.dashboards import Dashboard
from hermesops.observability.alerts.problem import Problem
from tests.support.suite.cases import each_case


def document() -> dict[str, Any]:
    return {
        "uid": "hermesops-x",
        "title": "X",
        "templating": {"list": [{"name": "instance"}]},
        "panels": [
            {
                "title": "Heartbeat",
                "type": "stat",
                "gridPos": {"x": 0, "y": 1, "w": 4, "h": 5},
                "fieldConfig": {
                    "defaults": {
                        "unit": "s",
                        "thresholds": {"steps": [{"color": "green", "value": None}, {"color": "red", "value": 90}]},
                    }
                },
                "targets": [{"expr": 'a{instance_id="$instance"}', "legendFormat": "{{cell}}"}],
            },
            {
                "title": "Turns",
                "type": "timeseries",
                "gridPos": {"x": 0, "y": 6, "w": 4, "h": 5},
                "fieldConfig": {"defaults": {"custom": {"stacking": {"mode": "normal"}}}},
                "targets": [{"expr": "rate(b[$__rate_interval])"}, {"expr": "hermesops:turns:ratio"}],
            },
        ],
    }


def read(dashboard: dict[str, Any]) -> Dashboard:
    output = dashboards.read(json.dumps(dashboard, indent=1), "x.json")
    assert isinstance(output, Dashboard), output
    return output


def test_its_panels_and_queries() -> None:
    heartbeat, turns = read(document()).panels
    assert (heartbeat.title, heartbeat.kind, heartbeat.unit, heartbeat.place) == (
        "Heartbeat",
        "stat",
        "s",
        (0, 1, 4, 5),
    )
    assert (heartbeat.thresholds, heartbeat.is_stacked) == (((90.0, "red"),), False)
    assert turns.is_stacked
    lines = json.dumps(document(), indent=1).splitlines()
    assert [lines[query.line - 1].split('"')[1] for query in read(document()).queries()] == ["expr"] * 3


def test_a_good_one_has_no_problems() -> None:
    assert dashboards.problems(read(document()), {"hermesops:turns:ratio"}) == []


def test_variables_are_filled_in() -> None:
    query = 'a{i="$instance", j="${instance:regex}"}[$__rate_interval]'
    assert dashboards.filled(query, {"instance": "ada"}) == 'a{i="ada", j="ada"}[5m]'


@each_case(
    ("change", "what"),
    [
        (lambda dashboard: dashboard["panels"].clear(), "has no panels"),
        (lambda dashboard: dashboard["panels"][1].update(title="Heartbeat"), "another panel is named Heartbeat"),
        (lambda dashboard: dashboard["panels"][1].update(type="gauge3d"), "gauge3d is none of bargauge, stat"),
        (lambda dashboard: dashboard["panels"][1].update(targets=[]), "panel Turns asks for nothing"),
        (lambda dashboard: dashboard["panels"][1]["targets"][0].update(expr=" "), "a query is empty"),
        (lambda dashboard: dashboard["templating"]["list"].clear(), "the dashboard has no variable instance"),
        (
            lambda dashboard: dashboard["panels"][1]["targets"][1].update(expr="hermesops:turn:ratio"),
            "no rule records hermesops:turn",
        ),
    ],
)
def test_what_is_wrong_is_told(change: Any, what: str) -> None:  # noqa: ANN401 - a lambda over JSON
    dashboard = document()
    change(dashboard)
    problems = dashboards.problems(read(dashboard), {"hermesops:turns:ratio"})
    assert any(what in str(problem) for problem in problems), problems


@each_case("text", ["", "{", "[]", "{}", "1", '{"uid": 1, "title": 1, "panels": [{}]}', "[" * 5000])
def test_what_is_no_dashboard_is_told(text: str) -> None:
    assert isinstance(dashboards.read(text, "x.json"), Problem)


def test_broken_json_is_told_with_its_line() -> None:
    output = dashboards.read('{\n "uid": "x",\n "title" "y"\n}', "x.json")
    assert str(output).startswith("x.json:3: not JSON")
