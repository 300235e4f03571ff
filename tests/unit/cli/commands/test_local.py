"""What ``hermesops local`` says at its end."""

import pytest

from hermesops.cli.commands.local import monitoring_lines

URL = "https://10.0.0.1:18083"


def test_monitoring_that_is_up_says_what_opens_it_and_which_commands_come_next() -> None:
    first, *commands = monitoring_lines(URL)
    assert URL in first
    assert "certificate" in first
    assert [line.split("  ")[1].strip() for line in commands] == [
        "hermesops monitor",
        "hermesops alert list",
        "hermesops fleet status --watch",
        "hermesops fleet top",
    ]


@pytest.mark.parametrize("line", monitoring_lines(URL)[1:])
def test_each_command_says_what_it_is_for(line: str) -> None:
    assert line.rpartition("  ")[2].strip()
