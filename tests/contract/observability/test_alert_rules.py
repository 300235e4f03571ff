"""Every alert fires in time, not just below, and not while an operation holds the instance; bad series hide nothing."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermesops.base.waiting import Pending, until
from hermesops.observability.alerts.rules import deployed
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.metrics.prometheus import Metrics
from tests.support.alerts import promtool
from tests.support.alerts.cases import ADA, CASES, instance, monitor
from tests.support.alerts.promtool import Case, Kind
from tests.support.real.monitoring import prometheus
from tests.support.suite.prerequisites import require

SECONDS = {
    "AgentReachabilityBurnFast": 20,
    "AgentReachabilityBurnSlow": 14,
    "TurnsFailingBurnSlow": 9,
    "HeartbeatMissed": 8,
    "TurnsFailingBurnFast": 5,
    "GatewayDown": 4,
    "FleetGap": 4,
    "GatewayLooping": 3,
    "DiskFilling page": 3,
    "CellLost": 2,
    "MetricsIncomplete": 2,
    "UnitFailed": 2,
}
"""What promtool needs for all cases of an alert, where it is more than a second."""


@pytest.fixture(scope="module")
def program() -> Path:
    folder = prometheus.programs()
    require(folder, "Prometheus: apt-get install prometheus, or apt-get download")
    assert folder is not None
    return folder / "promtool"


def _with_turns() -> Iterator[Any]:
    for alert in CASES:
        yield pytest.param(alert, marks=pytest.mark.turns(SECONDS.get(alert, 1), each=True))


@pytest.mark.parametrize("alert", [*_with_turns()])
def test_an_alert_does_what_its_cases_say(alert: str, program: Path, tmp_path: Path) -> None:
    name, _, _ = alert.partition(" ")
    names = [
        promtool.run(program, tmp_path, name, [case for case in CASES[alert] if case.evaluated_s == each])
        for each in sorted({case.evaluated_s for case in CASES[alert]})
    ]
    assert not any(names), "\n".join(names)


@pytest.mark.turns(8)
def test_no_rule_cannot_be_evaluated_over_bad_series(program: Path, tmp_path: Path) -> None:
    cases = [case for cases in CASES.values() for case in cases if case.kind is Kind.HOSTILE]
    assert promtool.unevaluated(program, tmp_path, cases, every_s=300) == ""


def test_each_alert_fires_and_what_people_read_of_it_is_filled_in(program: Path, tmp_path: Path) -> None:
    unfilled = dict[str, str]()
    for alert, cases in CASES.items():
        case = next(case for case in cases if case.kind is Kind.FIRES)
        shown = promtool.annotations(program, tmp_path, alert.split(maxsplit=1)[0], case)
        if not shown or any(word in shown[0] for word in ("error", "no value", "%!", "{{")):
            unfilled[alert] = shown[0] if shown else "it does not fire"
    assert not unfilled


@pytest.mark.parametrize(
    ("scale", "silent_after_s", "at_s", "figure"),
    [
        (1.0, 300, 450, "150 s since its last heartbeat; a machine is silent after 90 s"),
        (1.0, 0, 450, "300 s since its last heartbeat or longer; a machine is silent after 90 s"),
        (0.3, 300, 345, "45 s since its last heartbeat; a machine is silent after 27 s"),
        (0.3, 0, 300, "90 s since its last heartbeat or longer; a machine is silent after 27 s"),
    ],
)
def test_a_silent_machine_is_told_of_with_its_age_and_the_limit_as_they_are_deployed(
    scale: float,
    silent_after_s: int,
    at_s: int,
    figure: str,
    program: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (rules := tmp_path / "rules").mkdir()
    for path in promtool.files():
        (rules / path.name).write_text(deployed(path.read_text(), scale=scale, runbooks_url=""))
    monkeypatch.setattr(promtool, "RULES", rules)
    series = monitor(600) | instance("ada", 600, silent_after_s=silent_after_s)
    case = Case(Kind.FIRES, figure, series, {at_s: (ADA,)})
    (shown,) = promtool.annotations(program, tmp_path, "HeartbeatMissed", case)
    assert f'figure="{figure}"' in shown


def test_every_alert_has_cases_of_each_kind() -> None:
    missing = list[str]()
    for rule in promtool.all_rules():
        shown = {
            case.kind
            for name, cases in CASES.items()
            for case in cases
            if name.split()[0] == rule.name and promtool.rule_of(rule.name, case).line == rule.line
        }
        wanted = {Kind.FIRES} if rule.name == "Watchdog" else {Kind.FIRES, Kind.BELOW}
        if rule.labels["scope"] == "instance" and rule.name != "BreakGlassOpen":
            wanted.add(Kind.BUSY)
        missing += [f"{rule.name} {rule.labels['scope']}: no case of “{kind}”" for kind in sorted(wanted - shown)]
    assert not missing, "\n".join(missing)


def test_the_files_are_what_promtool_takes(program: Path) -> None:
    for path in promtool.files():
        assert promtool.checked(program, path) == ""


async def test_prometheus_says_which_alerts_only_go_on_firing(program: Path, tmp_path: Path) -> None:
    over_at = time.time() + 3
    rules = [
        {
            "alert": "Over",
            "expr": f"vector(time()) < {over_at}",
            "keep_firing_for": "1h",
            "labels": {"severity": "page"},
        },
        {"alert": "Holds", "expr": "vector(1)"},
    ]
    (tmp_path / "rules.yml").write_text(yaml.safe_dump({"groups": [{"name": "one", "rules": rules}]}))
    config = {"global": {"evaluation_interval": "200ms"}, "rule_files": ["rules.yml"]}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    with prometheus.serving(tmp_path, program.parent, tmp_path / "prometheus.yml", prefix="/prometheus") as url:
        metrics = Metrics(MonitoringClient(url))

        async def over() -> bool | Pending[bool]:
            holds_by_alert = {dict(labels)["alertname"]: holds for labels, holds in (await metrics.alerts()).items()}
            documents.append(holds_by_alert)
            return holds_by_alert == {"Over": False, "Holds": True} or Pending(str(holds_by_alert))

        documents = list[dict[str, bool]]()
        await until(over, what="one alert to be over", timeout_s=30, every_s=0.2)
    assert all(holds_by_alert["Holds"] for holds_by_alert in documents if holds_by_alert)
    assert {"Over": True, "Holds": True} in documents
