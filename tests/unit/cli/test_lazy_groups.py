"""What can be typed first is known without importing it, and is there when it is typed."""

import subprocess
import sys
from pathlib import Path

from hermesops.cli.commands import FOLDERS, SECTIONS, SUMMARIES
from hermesops.cli.groups import lazy as lazy_groups
from tests.support.suite.cases import each_case

COMMANDS = Path(lazy_groups.__file__).parents[1] / "commands"


@each_case("name", SUMMARIES)
def test_what_a_command_says_of_itself_begins_with_its_summary(name: str) -> None:
    help_text = lazy_groups.load(name).help
    assert help_text.replace(";", ".").replace(":", ".").startswith(SUMMARIES[name].rstrip(".").replace(":", "."))


def test_every_noun_is_offered() -> None:
    files = {file.stem for file in COMMANDS.glob("*.py") if "app = Noun(" in file.read_text()}
    folders = {file.parent.name for file in COMMANDS.glob("*/group.py")}
    assert files
    assert folders == FOLDERS
    assert files | folders <= set(SUMMARIES)


def test_each_noun_stands_in_one_section_of_the_help() -> None:
    assert sorted(name for names in SECTIONS.values() for name in names) == sorted(SUMMARIES)


def test_help_imports_none_of_them() -> None:
    program = (
        "import sys; sys.argv = ['hermesops', '--help']; from hermesops.cli import main; "
        "from hermesops.cli.groups import lazy; main.main();"
        "print([name for name in lazy.SUMMARIES if f'hermesops.cli.commands.{name}' in sys.modules]"
        "+ [name for name in sys.modules if name == 'rich'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
