"""The size of a data volume, read from the variables of a machine's order and written there."""

import pytest

from hermesops.programs.node.system.data_volume import wanted_gb, with_gb
from tests.support.suite.cases import each_case


@each_case(
    ("text", "size"),
    [
        (b"HERMES_DATA_GB='40'\n", 40),
        (b"A='b'\nHERMES_DATA_GB=80", 80),
        (b"HERMES_DATA_GB='40'\nHERMES_DATA_GB='80'\n", 80),
        (b"", 0),
        (b"XHERMES_DATA_GB='40'\n", 0),
        (b"HERMES_DATA_GB='forty'\n", 0),
        (b"HERMES_DATA_GB='-1'\n", 0),
        (b"\xff\nHERMES_DATA_GB='40'\n", 40),
    ],
)
def test_the_last_size_that_is_one_counts(text: bytes, size: int) -> None:
    assert wanted_gb(text) == size


@pytest.mark.parametrize("text", [b"", b"A='it is'", b"A='b'\n", b"HERMES_DATA_GB='40'\nB='\xff'\n"])
def test_a_size_is_changed_and_everything_else_stays(text: bytes) -> None:
    changed = with_gb(text, 80)
    assert wanted_gb(changed) == 80
    assert with_gb(changed, 80) == changed
    kept = [line for line in text.splitlines() if b"DATA_GB" not in line]
    assert [line for line in changed.splitlines() if b"DATA_GB" not in line] == kept
