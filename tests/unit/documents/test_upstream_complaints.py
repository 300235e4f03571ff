"""The runbook of upstream's complaints names a test for each protection, and each of them exists."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
_ROWS = [
    [cell.strip() for cell in line.strip("|\n ").split(" | ")]
    for line in (ROOT / "runbooks/upstream-complaints.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| ---", "| complaint"))
]
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")


@pytest.mark.parametrize("row", _ROWS, ids=lambda row: row[0][:40])
def test_each_complaint_is_answered_by_a_test_that_exists_or_called_open(row: list[str]) -> None:
    named = _TEST.fullmatch(row[2].strip("| ")) if len(row) > 2 else None
    if named is None:
        assert "*open*" in row[1]
        return
    file, name = named.groups()
    assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_all_ten_points_are_there() -> None:
    assert {match[0] for row in _ROWS if (match := re.match(r"\d+", row[0]))} == {
        str(number) for number in range(1, 11)
    }


def test_a_second_message_waits_and_destroys_no_work() -> None:
    variables = yaml.safe_load((ROOT / "roles/hermes_gateway/vars/main.yml").read_text())
    assert variables["__hermes_gateway_config"]["display"] == {"busy_input_mode": "queue"}
