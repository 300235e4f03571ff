"""Every alert fires in time, not just below, and not while an operation holds the instance; bad series hide nothing."""

from pathlib import Path

import pytest

from tests.support.alerts import promtool
from tests.support.alerts.cases import CASES
from tests.support.alerts.promtool import Kind
from tests.support.real import prometheus
from tests.support.suite.prerequisites import require


@pytest.fixture(scope="module")
def program() -> Path:
    folder = prometheus.programs()
    require(folder, "Prometheus: apt-get install prometheus, or apt-get download")
    assert folder is not None
    return folder / "promtool"


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_does_what_its_cases_say(alert: str, program: Path, tmp_path: Path) -> None:
    name, _, _ = alert.partition(" ")
    found = [
        promtool.run(program, tmp_path, name, [case for case in CASES[alert] if case.evaluated_s == each])
        for each in sorted({case.evaluated_s for case in CASES[alert]})
    ]
    assert not any(found), "\n".join(found)


@pytest.mark.parametrize("alert", CASES)
def test_what_people_read_of_it_is_filled_in(alert: str, program: Path, tmp_path: Path) -> None:
    case = next(case for case in CASES[alert] if case.kind is Kind.FIRES)
    (shown, *_) = promtool.annotations(program, tmp_path, alert.split(maxsplit=1)[0], case)
    assert "error" not in shown, shown
    assert "no value" not in shown, shown
    assert "%!" not in shown, shown
    assert "{{" not in shown, shown


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
