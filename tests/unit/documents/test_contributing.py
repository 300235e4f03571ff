"""CONTRIBUTING.md names only what is there."""

import re
from pathlib import Path

from tests.support.suite.cases import each_case

TOP = Path(__file__).parents[3]
TEXT = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
_CODE = re.findall(r"`([^`]+)`", TEXT)
PATHS = sorted(
    {
        word
        for code in _CODE
        for word in re.split(r"[\s'=]+", code)
        if re.match(r"(hermesops|tests|roles|ansible|images|pulumi|runbooks)(/|$)|pyproject\.toml$", word)
    }
)
NAMES = sorted(set(re.findall(r"`([A-Za-z_]+)` (?:in|of) `([\w./-]+\.\w+)`", TEXT)))
"""Names that the text says are in a file."""


@each_case("path", PATHS)
def test_paths_exist(path: str) -> None:
    assert (TOP / path).exists()


@each_case(("name", "path"), NAMES)
def test_names_are_in_their_files(name: str, path: str) -> None:
    assert re.search(rf"\b{name}\b", (TOP / path).read_text(encoding="utf-8"))


def test_targets_are_the_makefiles() -> None:
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    linters = [
        f"lint-{name}" for line in re.findall(r"^LINTERS := (.*)$", makefile, re.MULTILINE) for name in line.split()
    ]
    known = {*re.findall(r"^([a-z-]+):", makefile, re.MULTILINE), *linters}
    targets = {word for code in _CODE if code.startswith("make ") for word in code.partition(" T=")[0].split()[1:]}
    assert targets
    assert targets <= known


def test_the_text_names_many() -> None:
    assert len(PATHS) > 40
    assert len(NAMES) >= 8
