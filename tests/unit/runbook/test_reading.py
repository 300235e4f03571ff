"""Commands that a step may run without asking."""

import pytest

from hermesops import assets
from hermesops.runbook.reading import READING

FOLDER = assets.folder("runbooks")


@pytest.mark.parametrize("command", sorted(READING))
def test_commands_that_read_exist(command: str) -> None:
    noun, *verb = command.split()
    page = (FOLDER / "reference" / f"{noun}.md").read_text()
    assert f"\n## {command}\n" in page if verb else page
