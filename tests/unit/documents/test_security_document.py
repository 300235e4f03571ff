"""SECURITY.md names tests; a promise without its test is none."""

import re
from pathlib import Path

from tests.support.suite.cases import each_case

ROOT = Path(__file__).resolve().parents[3]
NAMED = sorted(set(re.findall(r"`(tests/[\w/.]+)`", (ROOT / "SECURITY.md").read_text())))


@each_case("name", NAMED)
def test_each_test_that_is_named_exists(name: str) -> None:
    assert (ROOT / name).is_file()


def test_each_threat_names_a_test() -> None:
    threats = (ROOT / "SECURITY.md").read_text().partition("## Threats")[2].partition("\n## ")[0]
    rows = [line for line in threats.splitlines() if line.startswith("| ") and not line.startswith("| ---")]
    reports = [row for row in rows if "| shown by |" not in row]
    assert len(reports) > 20
    assert not [row for row in reports if "`tests/" not in row]
