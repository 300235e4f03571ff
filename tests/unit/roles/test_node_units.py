"""What hermes-node's own units may wait for."""

from pathlib import Path

from hermesops.base import assets
from tests.support.suite.cases import each_case

TEMPLATES = sorted((assets.folder("roles") / "hermes_node" / "templates").glob("*.service.j2"))


@each_case("template", TEMPLATES, ids=lambda path: path.name)
def test_no_gateway_waits_for_what_waits_for_the_machines_lock(template: Path) -> None:
    """A handover holds the lock until its gateway answers; a unit between the two would wait for ever."""
    directives = [line for line in template.read_text().splitlines() if line.startswith("Before=")]
    assert [line for line in directives if "hermes-gateway" in line] == []


def test_there_are_units_to_look_at() -> None:
    assert TEMPLATES
