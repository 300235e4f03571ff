"""A release finds in this computer's caches what was fetched ahead for it."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import UnavailableError
from hermesops.machines.release.builder.prefetch import Prefetch
from tests.support.fakes.parts import part
from tests.unit.machines.release.builder.test_sqlite import archive_of, builder_of, files_of


def prefetch(folder: Path, fetched: list[str], *archives: bytes | None) -> Prefetch:
    def wheels(lock: Path, into: Path, *, python: str) -> None:
        assert not into.exists()
        fetched.append(f"{lock.name} for {python}")

    downloads: Any = part(wheels=wheels)
    lock = Path("locks/hermes-agent-py311.txt")
    builder = builder_of(folder / "sqlite", archives, [hashlib.sha256(archive_of()).hexdigest()])
    return Prefetch(builder, downloads, "3.11", lock, folder / "releases", fetched.append)


def test_sqlite_is_built_once_and_the_wheels_of_one_python_are_fetched(tmp_path: Path) -> None:
    fetched: list[str] = []
    prefetch(tmp_path, fetched, archive_of()).run()
    silent = prefetch(tmp_path, fetched, None)
    assert files_of(silent.sqlite), "the build of a release asks no source"
    silent.run()
    wheels = "hermes-agent-py311.txt for 3.11"
    assert [line.partition(":")[0] for line in fetched] == [
        "fetching SQLite's source from https",
        "compiling SQLite",
        wheels,
        wheels,
    ]
    assert not list((tmp_path / "releases").iterdir())


def test_a_source_that_does_not_answer_is_told(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="does not answer"):
        prefetch(tmp_path, [], None).run()
