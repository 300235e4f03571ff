"""Folders of an environment are its owner's alone, whatever the umask of whoever begins it."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermesops
from hermesops.access.registry_place import _folder_of
from hermesops.base.files.private_file import close_to_others, make_private_folder, make_secret
from hermesops.settings.environment import Environment

TOP = Path(hermesops.__file__).parent
ELSEWHERE = {"programs", "wire"}
"""Programs and the wire, which hermes-node carries: nothing of an operator's home is where they run."""


def modes(*paths: Path) -> list[str]:
    return [oct(path.stat().st_mode & 0o777) for path in paths]


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_umask")
def test_home_and_environment_are_closed_to_others(tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = Environment.load("local", {"HOME": str(tmp_path), "HERMESOPS_HOME": str(home)})

    folder = _folder_of(env)
    make_secret(env.keys / "authority.key", "x")

    assert modes(home, folder, env.keys, env.keys / "authority.key") == ["0o700", "0o700", "0o700", "0o600"]


def test_a_folder_that_was_open_to_others_is_closed_and_one_above_is_left_alone(tmp_path: Path) -> None:
    env = Environment.load("local", {"HOME": str(tmp_path), "HERMESOPS_HOME": str(tmp_path / "home")})
    env.folder.mkdir(parents=True)
    env.folder.chmod(0o775)
    env.folder.parent.chmod(0o755)

    _folder_of(env)

    assert modes(env.folder, env.folder.parent) == ["0o770", "0o755"]
    close_to_others(env.folder)


def test_a_file_in_the_place_of_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(FileExistsError):
        make_private_folder(tmp_path / "a")


def test_no_folder_is_made_private_with_open_ones_above_it() -> None:
    """``mkdir(mode=0o700, parents=True)`` gives the mode to the last one alone, and lets the umask take from it."""
    paths = [
        f"{path.relative_to(TOP)}:{node.lineno}"
        for path in TOP.rglob("*.py")
        if path.relative_to(TOP).parts[0] not in ELSEWHERE
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "mkdir"
        and {"mode", "parents"} <= {keyword.arg for keyword in node.keywords}
    ]
    assert paths == []
