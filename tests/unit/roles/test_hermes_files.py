"""What module ``hermes_files`` tells of contents, and which links it follows: none that somebody else may have made."""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from hermesops.base import assets

SECRET = "hs1.canary-of-a-secret"  # noqa: S105 - a canary


@pytest.fixture(scope="module")
def files() -> Iterator[ModuleType]:
    """The module, which Ansible loads by its path as well."""
    file = assets.folder("ansible") / "plugins" / "modules" / "hermes_files.py"
    spec = importlib.util.spec_from_file_location("hermes_files", file)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, loaded)  # where dataclasses look for it
        spec.loader.exec_module(loaded)
        yield loaded


def _mode(path: str, mode: str, **_: object) -> bool:
    Path(path).chmod(int(mode, 8))
    return True


def _fail(msg: str, **_: object) -> None:
    raise OSError(msg)


def ansible(*, check_mode: bool = False) -> Any:  # noqa: ANN401 - stands for Ansible's own class
    """A module that may change modes; owners are root's to change."""
    return SimpleNamespace(
        check_mode=check_mode,
        tmpdir="/tmp",  # noqa: S108 - not used
        set_owner_if_different=lambda *_, **__: False,
        set_group_if_different=lambda *_, **__: False,
        set_mode_if_different=_mode,
        fail_json=_fail,
    )


def entry(files: ModuleType, path: Path, content: str = "", state: str = "file", mode: str | None = None) -> Any:  # noqa: ANN401 - of that module
    return files.Entry(str(path), state, content, "root", "root", mode, None)


@pytest.mark.parametrize("check_mode", [False, True])
def test_a_content_that_not_everybody_may_read_is_in_no_difference(
    files: ModuleType, tmp_path: Path, *, check_mode: bool
) -> None:
    hidden, opened, kept = tmp_path / "hidden", tmp_path / "opened", tmp_path / "kept"
    hidden.write_text(SECRET)
    opened.write_text(SECRET)
    opened.chmod(0o640)
    module = ansible(check_mode=check_mode)
    wanted = [
        entry(files, hidden, f"{SECRET} anew", mode="0640"),
        entry(files, opened, "hello", mode="0644"),
        entry(files, kept, SECRET, "kept", "0600"),
    ]

    changed, differences = files.bring(module, wanted)

    assert changed == [str(hidden), str(opened), str(kept)]
    assert SECRET not in str(differences)
    assert "not shown" in differences[0]["after"]


def test_what_everybody_may_read_is_shown(files: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("before")
    (tmp_path / "a").chmod(0o644)

    _, [difference] = files.bring(ansible(), [entry(files, tmp_path / "a", "after")])

    assert (difference["before"], difference["after"]) == ("before", "after")


def test_what_ansible_says_that_was_asked_holds_no_secret(files: ModuleType, tmp_path: Path) -> None:
    documents = [
        {"path": str(tmp_path / "key"), "content": SECRET, "mode": "0600"},
        {"path": str(tmp_path / "a"), "content": "for all", "mode": "0644"},
    ]
    usual = {"state": "file", "owner": "root", "group": "root", "validate": None}
    module = ansible()
    module.params = {"files": [{**usual, **file} for file in documents]}
    parameters: dict[str, Any] = {}
    module.exit_json = parameters.update

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "AnsibleModule", lambda **_: module)
        files.main()

    assert (tmp_path / "key").read_text() == SECRET
    assert SECRET not in str([module.params, parameters])
    assert "for all" in str(module.params)


@pytest.mark.skipif(os.geteuid() != 0, reason="whose link it is, root alone can say")
@pytest.mark.parametrize("state", ["file", "kept", "directory", "link", "absent"])
def test_no_link_of_somebody_elses_is_followed(files: ModuleType, tmp_path: Path, state: str) -> None:
    aim = tmp_path / "aim"
    aim.mkdir()
    (aim / "name").write_text("as it was")
    (tmp_path / "link").symlink_to(aim)
    os.lchown(tmp_path / "link", 64_001, 64_001)

    with pytest.raises(OSError, match="link that is not root's alone"):
        files.bring(ansible(), [entry(files, tmp_path / "link" / "name", "ours", state)])

    assert (aim / "name").read_text() == "as it was"
    assert [path.name for path in aim.iterdir()] == ["name"]


@pytest.mark.skipif(os.geteuid() != 0, reason="as above")
def test_a_link_of_roots_in_a_folder_of_somebody_elses_is_not_followed(files: ModuleType, tmp_path: Path) -> None:
    """Whoever owns the folder may put another one in its place at any moment."""
    (tmp_path / "aim").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "link").symlink_to(tmp_path / "aim")
    assert files.bring(ansible(), [entry(files, tmp_path / "home" / "link" / "a", "x")])[0]
    os.chown(tmp_path / "home", 64_001, 64_001)

    with pytest.raises(OSError, match="not root's alone"):
        files.bring(ansible(), [entry(files, tmp_path / "home" / "link" / "b", "x")])


@pytest.mark.skipif(os.geteuid() != 0, reason="as above")
def test_a_folder_is_made_and_owned_where_it_is_and_not_where_a_link_leads(files: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "aim").mkdir(mode=0o700)
    (tmp_path / "cron").symlink_to(tmp_path / "aim")
    os.lchown(tmp_path / "cron", 64_001, 64_001)

    with pytest.raises(OSError, match="a link of another user's"):
        files.bring(ansible(), [entry(files, tmp_path / "cron", state="directory", mode="0777")])

    assert (tmp_path / "aim").stat().st_mode & 0o777 == 0o700


def test_folders_are_made_with_those_above_them_and_in_check_mode_nothing_is(files: ModuleType, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    wanted = [
        entry(files, deep, state="directory"),
        entry(files, deep / "c", "x"),
        entry(files, tmp_path / "n" / "o", state="absent"),
    ]

    assert files.bring(ansible(check_mode=True), wanted)[0] == [str(deep), str(deep / "c")]
    assert not deep.parent.exists()
    assert files.bring(ansible(), wanted)[0] == [str(deep), str(deep / "c")]
    assert (deep / "c").read_text() == "x"
