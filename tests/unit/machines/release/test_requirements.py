"""The set of packages that a Python installs."""

import pytest

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.machines.release.requirements import Pin, known_wheels, parse, pin_of, render, runs_everywhere
from hermesops.wire.documents.lock import Blob

A, B, C = "a" * 64, "b" * 64, "c" * 64
RESOLVED = f"""\
# of a resolver
aiohttp==3.14.1 \\
    --hash=sha256:{A} \\
    --hash=sha256:{B}
Typing_Extensions[x]==4.1 --hash=sha256:{C}
"""


def test_what_a_resolver_prints_is_read() -> None:
    assert parse(RESOLVED) == (
        Pin("aiohttp", "3.14.1", frozenset({A, B})),
        Pin("typing-extensions", "4.1", frozenset({C})),
    )


@pytest.mark.parametrize("line", ["aiohttp==3.14.1", f"aiohttp>=3 --hash=sha256:{A}", "-e ."])
def test_what_cannot_be_locked_is_named(line: str) -> None:
    with pytest.raises(BrokenInvariantError, match="without version or hash"):
        parse(line)


def test_a_machine_is_told_one_hash_for_each_package() -> None:
    wheels = [Blob("typing_extensions-4.1-py3-none-any.whl", C, 1), Blob("aiohttp-3.14.1-py3-none-any.whl", B, 1)]
    text = render("3.11", wheels)
    assert text.decode() == (
        f"# python 3.11, x86_64\naiohttp==3.14.1 --hash=sha256:{B}\ntyping-extensions==4.1 --hash=sha256:{C}\n"
    )
    assert render("3.11", reversed(wheels)) == text


def test_what_was_taken_once_is_taken_again() -> None:
    kept = [Blob("aiohttp-3.14.1-py3-none-any.whl", B, 1), Blob("other-1-py3-none-any.whl", "d" * 64, 1)]
    assert known_wheels(parse(RESOLVED), kept) == {"aiohttp": kept[0]}


def test_a_file_that_is_no_wheel_is_named() -> None:
    with pytest.raises(RefusedError, match=r"agent\.zip is not named as a wheel is"):
        pin_of(Blob("agent.zip", A, 1))


@pytest.mark.parametrize("tags", ["py3-none-any", "py2.py3-none-any"])
def test_a_wheel_for_every_python_is_known_by_its_name(tags: str) -> None:
    assert runs_everywhere(Blob(f"aiohttp-3.14.1-{tags}.whl", B, 1))


@pytest.mark.parametrize("tags", ["cp312-cp312-manylinux_2_28_x86_64", "cp311-abi3-linux_x86_64", "py2-none-any"])
def test_a_wheel_for_some_is_not(tags: str) -> None:
    assert not runs_everywhere(Blob(f"aiohttp-3.14.1-{tags}.whl", B, 1))
