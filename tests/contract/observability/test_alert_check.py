"""``hermesops alert check`` finds what is wrong with files of monitoring, with file and line, by real programs too."""

import json
import shutil
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.errors import UsageError
from hermesops.observability.alerts.check import Checker, check, shipped
from tests.support.real.monitoring import alertmanager, prometheus
from tests.support.suite.prerequisites import require

ROLE = assets.folder("roles") / "hermes_platform_monitoring"
RULES = ROLE / "files/rules/heartbeats.yml"
ROUTES = ROLE / "templates/alertmanager.yml.j2"
DASHBOARD = ROLE / "files/dashboards/fleet.json"


@pytest.fixture(scope="module")
def checker() -> Checker:
    path, routed = prometheus.programs(), alertmanager.programs()
    require(path and routed, "Prometheus and Alertmanager: apt-get install prometheus prometheus-alertmanager")
    assert path
    assert routed
    return Checker(_Any(), _no_problem, {"promtool": path / "promtool", "amtool": routed / "amtool"})


class _Any(set[str]):
    """Every runbook there could be: another test asks which there are."""

    def __contains__(self, name: object) -> bool:
        return True


def _no_problem(_: Path) -> str:
    return ""


def changed(folder: Path, source: Path, before: str, after: str) -> tuple[Path, int]:
    """A copy with one change, and the line of that."""
    text = source.read_text()
    assert before in text, before
    path = folder / source.name
    path.write_text(text.replace(before, after, 1))
    return path, text[: text.index(before)].count("\n") + 1


def test_what_is_shipped_is_right(checker: Checker) -> None:
    checked = checker.check(shipped(ROLE, assets.folder("runbooks")))
    assert not checked.problems, "\n".join(map(str, checked.problems))
    assert not checked.missing


@pytest.mark.parametrize(
    ("source", "before", "after", "what"),
    [
        (RULES, "expr: vector(90)", "expr: vector(90", "unclosed left parenthesis"),
        (RULES, "expr: count by (cell)", "expr: count bye (cell)", "parse error"),
        (RULES, "{{ $value | humanizePercentage }}", "{{ $value | humanisePercentage }}", "humanisePercentage"),
        (RULES, "keep_firing_for: 5m", "keep_firing: 5m", "“keep_firing” is none of"),
        (RULES, "groups:", "groups: {", "not YAML"),
        (
            DASHBOARD,
            "count(hermesops:instance:watched)",
            "count(hermesops:instance:watched",
            "unclosed left parenthesis",
        ),
        (DASHBOARD, "count(hermesops:instance:watched)", "count(hermesops:instance:watch)", "no rule records"),
        (DASHBOARD, '"title": "Fleet",', '"title": "Fleet"', "not JSON"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(
    source: Path, before: str, after: str, what: str, checker: Checker, tmp_path: Path
) -> None:
    path, line = changed(tmp_path, source, before, after)
    others = [file for file in shipped(ROLE, tmp_path / "none") if file != source]
    problems = [problem for problem in checker.check([path, *others]).problems if problem.file == str(path)]
    assert any(what in problem.message for problem in problems), problems
    assert any(abs(problem.line - line) <= 16 and problem.line for problem in problems), (
        line,
        problems,
    )  # that of the rule it is in


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("- receiver: watchdog", "- receiver: watchdogs", "no receiver is named watchdogs"),
        ("equal: [alertname]", "equals: [alertname]", "field equals not found"),
        ("{% set scale", "{% sett scale", "the template fails"),
        ("hermes_platform_monitoring_watchdog_url", "hermes_platform_monitoring_watch_url", "the template fails"),
        ('severity="none"', 'severity~"none"', "bad matcher format"),
    ],
)
def test_wrong_routes_are_told(before: str, after: str, what: str, checker: Checker, tmp_path: Path) -> None:
    path, _ = changed(tmp_path, ROUTES, before, after)
    problems = checker.check([path]).problems
    assert any(what in problem.message for problem in problems), problems
    assert {problem.file for problem in problems} == {str(path)}


def test_a_finished_configuration_is_told_with_its_line(checker: Checker, tmp_path: Path) -> None:
    path = tmp_path / "alertmanager.yml"
    path.write_text("route:\n  receiver: a\n  group_wait: soon\nreceivers:\n  - name: a\n")
    (problem,) = checker.check([path]).problems
    assert "soon" in problem.message


def test_a_field_that_alertmanager_does_not_know_is_told_with_its_line(checker: Checker, tmp_path: Path) -> None:
    path = tmp_path / "alertmanager.yml"
    path.write_text("route:\n  receiver: a\n  group_weight: 5s\nreceivers:\n  - name: a\n")
    (problem,) = checker.check([path]).problems
    assert (problem.line, "group_weight" in problem.message) == (3, True)


def test_a_wrong_runbook_is_told_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "machine-gone.md"
    path.write_text("# It broke")

    def problem_of(read: Path) -> str:
        return f"{read}:7: a tag begins with something else"

    (problem,) = Checker((), problem_of, {}).check([path]).problems
    assert (problem.line, problem.message) == (7, "a tag begins with something else")


def test_what_is_not_installed_is_named(tmp_path: Path) -> None:
    path = shutil.copy(RULES, tmp_path)
    assert Checker(_Any(), _no_problem, {}).check([Path(path)]).missing == ("promtool", "amtool")


@pytest.mark.parametrize(
    ("name", "why"), [("x.txt", "neither YAML, a dashboard in JSON, nor a runbook"), ("missing.yml", "cannot be read")]
)
def test_what_cannot_be_checked_is_refused(name: str, why: str, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(json.dumps("x"))
    with pytest.raises(UsageError, match=why):
        Checker((), _no_problem, {}).check([tmp_path / name])


def test_rules_are_checked_against_what_is_shipped_and_a_broken_runbook_is_named(tmp_path: Path) -> None:
    roles, runbooks = assets.folder("roles"), assets.folder("runbooks")
    (broken := tmp_path / "broken.md").write_text("# T\n\n<!-- step one: perhaps -->\n")
    checked = check([RULES, broken], roles, runbooks)
    assert {problem.file for problem in checked.problems} == {str(broken)}
    assert check([], roles, runbooks).files == tuple(shipped(ROLE, runbooks))
