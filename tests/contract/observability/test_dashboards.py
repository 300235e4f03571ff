"""Every query of every dashboard finds something, in a real Prometheus and behind our own rules, and can be drawn."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesops.base import assets
from hermesops.observability.alerts import dashboards
from hermesops.observability.alerts.dashboards import Dashboard
from tests.support.alerts import fleet_past, promtool
from tests.support.documents import dashboard_picture
from tests.support.documents.dashboard_picture import Span
from tests.support.real.monitoring import prometheus
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(15)

FOLDER = assets.folder("roles") / "hermes_platform_monitoring/files/dashboards"
VALUES = {"instance": fleet_past.SHOWN}


def loaded(name: str) -> Dashboard:
    read = dashboards.read((FOLDER / f"{name}.json").read_text(), f"{name}.json")
    assert isinstance(read, Dashboard), read
    return read


NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.fixture(scope="module")
def programs() -> Path:
    path = prometheus.programs()
    require(path, "Prometheus: apt-get install prometheus, or apt-get download")
    assert path is not None
    return path


@pytest.fixture(scope="module")
def url(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with prometheus.running(tmp_path_factory.mktemp("prometheus"), programs, fleet_past.past()) as url:
        yield url


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_shows_something(name: str, url: str) -> None:
    span = Span(fleet_past.BEGIN, fleet_past.END)
    answers = dashboard_picture.ask(url, loaded(name), span, VALUES)
    assert [title for title, lines in answers.items() if not lines] == []
    picture = dashboard_picture.drawn(loaded(name), answers, span, "")
    assert "no data" not in picture
    assert "NaN" not in picture
    assert all(f">{panel.title}<" in picture for panel in loaded(name).panels)


def test_every_query_finds_what_our_rules_record(programs: Path, tmp_path: Path) -> None:
    """From raw series alone: a series that a rule records under other labels would be found by the test above."""
    queries = [dashboards.filled(query.expression, VALUES) for name in NAMES for query in loaded(name).queries()]
    unanswered = promtool.without_answer(
        programs / "promtool", tmp_path, fleet_past.raw(minutes=45), queries, at_s=44 * 60, every_s=60
    )
    assert unanswered == []
