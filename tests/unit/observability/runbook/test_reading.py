"""Commands that a step may run without asking."""

from hermesops.base import assets
from hermesops.observability.runbook.reading import READING, is_reading
from tests.support.suite.cases import each_case

FOLDER = assets.folder("runbooks")


@each_case("command", sorted(READING))
def test_commands_that_read_exist(command: str) -> None:
    noun, *verb = command.split()
    page = (FOLDER / "reference" / f"{noun}.md").read_text()
    assert f"\n## {command}\n" in page if verb else page


def test_a_verb_of_a_group_reads_without_its_neighbours() -> None:
    assert is_reading(("user", "caller", "list", "--undelivered"))
    assert not is_reading(("user", "caller", "revoke", "CALLER"))
