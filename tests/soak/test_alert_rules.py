"""The cases of all alerts with all rules that are deployed, not only with those that an alert reads."""

from pathlib import Path

import pytest

from tests.support.alerts import promtool
from tests.support.alerts.cases import CASES
from tests.support.real.monitoring import prometheus
from tests.support.suite.prerequisites import require


@pytest.mark.parametrize("alert", CASES)
def test_an_alert_does_what_its_cases_say_beside_all_others(alert: str, tmp_path: Path) -> None:
    folder = prometheus.programs()
    require(folder, "Prometheus: apt-get install prometheus, or apt-get download")
    assert folder is not None
    names = [
        promtool.run(
            folder / "promtool",
            tmp_path,
            alert.split(maxsplit=1)[0],
            [case for case in CASES[alert] if case.evaluated_s == each],
            with_all=True,
        )
        for each in sorted({case.evaluated_s for case in CASES[alert]})
    ]
    assert not any(names), "\n".join(names)
