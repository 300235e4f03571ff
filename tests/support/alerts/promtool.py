"""Runs cases of alert rules with the real promtool: series in, what fires when out.

promtool evaluates all rules that it is given, at each step. A case needs those that its alert reads, which are few.

Source: prometheus.io/docs/prometheus/2.42/configuration/unit_testing_rules. Time begins at 0, as do machines' clocks.
"""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hermesops.base import assets
from hermesops.observability.alerts.rules import AlertRule, alert_rules

RULES = assets.folder("roles") / "hermes_platform_monitoring" / "files" / "rules"

_NAME = re.compile(r"[A-Za-z_:][A-Za-z0-9_:]*")
_ALERT_PATTERN = re.compile(r'alertname=~"([^"]*)"')

Labels = Mapping[str, str]


class Kind(StrEnum):
    """What a case shows of an alert."""

    FIRES = "fires"
    BELOW = "just below"
    BUSY = "silent while an operation holds the instance"
    HOSTILE = "bad series"


@dataclass(frozen=True)
class Case:
    """One past, and what it makes fire.

    Attributes:
        says: In a sentence, for whoever reads a failure.
        series: Values of each series in promtool's notation, one every ``every_s`` seconds.
        firing: At so many seconds, labels of what fires, without those that the rule gives.
        scope: Of the rule, where an alert has several.
        severity: As well.
    """

    kind: Kind
    says: str
    series: Mapping[str, str]
    firing: Mapping[int, Sequence[Labels]]
    scope: str = ""
    severity: str = ""
    every_s: int = 15
    evaluated_s: int = 5


def files() -> list[Path]:
    """The files of rules that are deployed."""
    return sorted(RULES.glob("*.yml"))


@cache
def all_rules() -> tuple[AlertRule, ...]:
    """Their alerts."""
    return tuple(rule for path in files() for rule in alert_rules(path.read_text(), str(path)))


def rule_of(alert: str, case: Case) -> AlertRule:
    """The one rule that a case is about."""
    matching = [
        rule
        for rule in all_rules()
        if rule.name == alert
        and case.scope in {"", rule.labels["scope"]}
        and case.severity in {"", rule.labels["severity"]}
    ]
    assert len(matching) == 1, (alert, case.says, [rule.labels for rule in matching])
    return matching[0]


def groups(alert: str = "") -> list[dict[str, Any]]:
    """The groups of rules in the order in which they are evaluated.

    Args:
        alert: Only it, and the rules whose series it reads, also by way of others; empty for all rules.
    """
    deployed = _deployed(tuple(files()))
    wanted = _read_by(alert, [rule for group in deployed for rule in group["rules"]])
    kept = (
        {**group, "rules": [rule for rule in group["rules"] if not alert or _name(rule) in wanted]}
        for group in deployed
    )
    return [group for group in kept if group["rules"]]


@cache
def _deployed(paths: tuple[Path, ...]) -> list[dict[str, Any]]:
    return [group for path in paths for group in yaml.safe_load(path.read_text())["groups"]]


def _read_by(alert: str, rules: Sequence[Mapping[str, str]]) -> set[str]:
    """The names of an alert and of all records and alerts that it depends on."""
    names, names_read, added = {_name(rule) for rule in rules}, set[str](), {alert}
    while added:
        names_read |= added
        expressions = [rule["expr"] for rule in rules if _name(rule) in added]
        added = {name for name in names - names_read if any(_reads(expression, name) for expression in expressions)}
    return names_read


def _reads(expression: str, name: str) -> bool:
    """Whether an expression names a record or an alert, or has a pattern of alerts' names that fits it."""
    patterns = _ALERT_PATTERN.findall(expression)
    return name in _NAME.findall(expression) or any(re.fullmatch(pattern, name) for pattern in patterns)


def _name(rule: Mapping[str, str]) -> str:
    return rule.get("record") or rule["alert"]


def run(promtool: Path, folder: Path, alert: str, cases: Sequence[Case], *, with_all: bool = False) -> str:
    """What promtool has against these cases; empty where all is as they say.

    Args:
        with_all: Evaluate all rules, not only those that the alert needs: a rule that cannot be evaluated is told.
    """
    document = _document(folder, "" if with_all else alert, [_test(alert, case) for case in cases])
    (folder / "test.yml").write_text(yaml.safe_dump(document, sort_keys=False, width=10_000))
    done = subprocess.run(
        [promtool, "test", "rules", "test.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def unevaluated(promtool: Path, folder: Path, cases: Sequence[Case], *, every_s: int) -> str:
    """What promtool says of rules, of all that there are, that cannot be evaluated over the series of these cases."""
    tests = [
        {
            **_input(case),
            "evaluated_s": every_s,
            "promql_expr_test": [{"expr": "absent(vector(1))", "eval_time": f"{max(case.firing)}s", "exp_samples": []}],
        }
        for case in cases
    ]
    (folder / "evaluated.yml").write_text(yaml.safe_dump(_document(folder, "", tests), sort_keys=False, width=10_000))
    done = subprocess.run(
        [promtool, "test", "rules", "evaluated.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


def annotations(promtool: Path, folder: Path, alert: str, case: Case) -> list[str]:
    """The annotations of what a case makes fire, as promtool prints them."""
    at = next(at for at, labels in case.firing.items() if labels)
    test = {
        **_input(case),
        "alert_rule_test": [{"eval_time": f"{at}s", "alertname": alert, "exp_alerts": []}],
    }
    (folder / "annotations.yml").write_text(
        yaml.safe_dump(_document(folder, alert, [test]), sort_keys=False, width=10_000)
    )
    done = subprocess.run(
        [promtool, "test", "rules", "annotations.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    return re.findall(r"Annotations:(\{.*\})", done.stdout + done.stderr)


def without_answer(
    promtool: Path, folder: Path, series: Mapping[str, str], queries: Sequence[str], *, at_s: int, every_s: int
) -> list[str]:
    """Those of some queries that find nothing, once our rules have run over some series."""
    test = {
        "evaluated_s": every_s,
        "interval": f"{every_s}s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [{"expr": query, "eval_time": f"{at_s}s", "exp_samples": []} for query in queries],
    }
    (folder / "queries.yml").write_text(yaml.safe_dump(_document(folder, "", [test]), sort_keys=False, width=10_000))
    done = subprocess.run(
        [promtool, "test", "rules", "queries.yml"], cwd=folder, capture_output=True, text=True, check=False
    )
    printed = done.stdout + done.stderr
    # What finds something is not empty, as it is said to be: promtool names it.
    answered = {json.loads(text) for text in re.findall(r'expr: ("(?:\\.|[^"\\])*"), time', printed)}
    assert answered, printed
    return [query for query in queries if query not in answered]


def _document(folder: Path, alert: str, tests: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    chosen = groups(alert)
    (folder / "rules.yml").write_text(yaml.safe_dump({"groups": chosen}, sort_keys=False, width=10_000))
    return {
        "rule_files": ["rules.yml"],
        "evaluation_interval": f"{_common(tests)}s",
        "group_eval_order": [group["name"] for group in chosen],
        "tests": [{key: value for key, value in test.items() if key != "evaluated_s"} for test in tests],
    }


def _common(tests: Sequence[Mapping[str, Any]]) -> int:
    (seconds,) = {test["evaluated_s"] for test in tests}
    return int(seconds)


def _input(case: Case) -> dict[str, Any]:
    return {
        "evaluated_s": case.evaluated_s,
        "name": case.says,
        "interval": f"{case.every_s}s",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
    }


def _test(alert: str, case: Case) -> dict[str, Any]:
    rule = rule_of(alert, case)
    matchers = {"alertname": alert, "alertstate": "firing", "scope": rule.labels["scope"], "severity": rule.severity}
    return {
        **_input(case),
        "promql_expr_test": [
            {
                "expr": _selector("ALERTS", matchers),
                "eval_time": f"{at}s",
                "exp_samples": [
                    {"labels": _selector("ALERTS", {**matchers, **rule.labels, **labels}), "value": 1}
                    for labels in labelled
                ],
            }
            for at, labelled in case.firing.items()
        ],
    }


def _selector(metric: str, labels: Labels) -> str:
    inside = ", ".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{metric}{{{inside}}}"


def checked(promtool: Path, path: Path) -> str:
    """What ``promtool check rules`` has against a file; empty where nothing."""
    done = subprocess.run([promtool, "check", "rules", path], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
