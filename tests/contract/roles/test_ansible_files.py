"""What the module ``hermes_files`` makes of a list: ansible-playbook runs it here, in a folder of the test."""

import grp
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from hermesops.base import assets

pytestmark = pytest.mark.turns(22)

USER = {"owner": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}


@dataclass(frozen=True)
class Host:
    """A role of one task, and the folder that it brings to what its list says."""

    role: Path
    folder: Path

    def bring(self, *entries: dict[str, Any] | str, check: bool = False) -> dict[str, Any]:
        """Run one task; its result. Entries that are text are Jinja that makes a list."""
        (result,) = self.bring_each(entries, check=check)
        return result

    def bring_each(self, *lists: Sequence[dict[str, Any] | str], check: bool = False) -> list[dict[str, Any]]:
        """Run a task for each list, one after the other; their results."""
        tasks = [task for entries in lists for task in self._tasks(entries)]
        play = [{"hosts": "localhost", "gather_facts": False, "vars": {"who": "ada"}, "roles": [self.role.name]}]
        (self.role / "tasks" / "main.yml").write_text(yaml.safe_dump(tasks))
        playbook = self.role.parent / "play.yml"
        playbook.write_text(yaml.safe_dump(play))
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.role.parent),
            "ANSIBLE_CONFIG": str(assets.folder("ansible") / "ansible.cfg"),
            "ANSIBLE_ROLES_PATH": str(self.role.parent),
            "ANSIBLE_REMOTE_TMP": str(self.role.parent / "remote"),
            "ANSIBLE_INVENTORY_UNPARSED_FAILED": "false",
            "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        }
        command = ["ansible-playbook", "-c", "local", "-i", "localhost,", *["--check"][: int(check)], str(playbook)]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        shown = ran.stdout.split("ok: [localhost] => {")[1:]
        results = [json.JSONDecoder().raw_decode("{" + text)[0].get("result") for text in shown]
        return [result for result in results if result is not None]

    def _tasks(self, entries: Sequence[dict[str, Any] | str]) -> list[dict[str, Any]]:
        files = entries[0] if isinstance(entries[0], str) else [{**USER, **file} for file in entries]  # type: ignore[dict-item]
        task = {"name": "Bring files", "hermes_files": {"files": files}, "register": "result", "failed_when": False}
        return [task, {"name": "Show", "ansible.builtin.debug": {"var": "result"}}]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    role, folder = tmp_path / "role", tmp_path / "host"
    for name in ("tasks", "templates", "files"):
        (role / name).mkdir(parents=True)
    folder.mkdir()
    (role / "templates" / "greeting.j2").write_text("{% if who %}\nhello {{ who }}\n{% endif %}\n")
    (role / "files" / "program").write_text("print('{{ who }}')\n\n")
    return Host(role, folder)


def test_files_of_each_kind_are_made_in_order_and_a_second_run_changes_nothing(host: Host) -> None:
    settings = host.folder / "settings"
    entries: list[dict[str, Any]] = [
        {"path": str(settings), "state": "directory", "mode": "0750"},
        {"path": str(settings / "greeting"), "template": "greeting.j2", "mode": "0600"},
        {"path": str(settings / "program"), "source": "program", "mode": "0755"},
        {"path": str(settings / "masked"), "state": "link", "content": "/dev/null"},
        {"path": str(settings / "kept"), "state": "kept", "content": "first"},
        {"path": str(settings / "gone"), "state": "absent"},
    ]
    result = host.bring(*entries)
    names = ["settings", "settings/greeting", "settings/program", "settings/masked", "settings/kept"]
    assert result["changed_files"] == [str(host.folder / name) for name in names]
    assert "invocation" not in result
    assert (settings / "greeting").read_text() == "hello ada\n"
    assert (settings / "program").read_text() == "print('{{ who }}')\n\n"
    assert (settings / "masked").readlink() == Path("/dev/null")
    modes = [oct(path.stat().st_mode & 0o777) for path in (settings, settings / "greeting", settings / "program")]
    assert modes == ["0o750", "0o600", "0o755"]

    (settings / "kept").write_text("by the service")
    assert host.bring(*entries)["changed"] is False
    assert (settings / "kept").read_text() == "by the service"


def test_what_differs_is_mended_and_nothing_else(host: Host) -> None:
    first, other = host.folder / "one", host.folder / "other"
    entries = [{"path": str(first), "content": "1"}, {"path": str(other), "content": "2"}]
    first.write_text("1")
    first.chmod(0o666)
    other.write_text("2")
    other.chmod(0o644)
    assert host.bring(*entries)["changed_files"] == [str(first)]
    assert first.stat().st_mode & 0o777 == 0o644
    other.write_text("3")
    assert host.bring(*entries, check=True)["changed_files"] == [str(other)]
    assert other.read_text() == "3"
    result = host.bring(*entries, {"path": str(first), "state": "absent"})
    assert result["changed_files"] == [str(other), str(first)]
    assert [(file["before"], file["after"]) for file in result["diff"]] == [("3", "2"), ("there\n", "")]
    assert not first.exists()


def test_what_is_refused_or_cannot_be_done_is_told_and_changes_nothing(host: Host) -> None:
    """Also no file of the list before it; a link in the place of a file is replaced, not followed."""
    good, bad, data = host.folder / "good", host.folder / "bad", host.folder / "data"
    target, path = host.folder / "target", host.folder / "path"
    bad.write_text("as it was")
    data.mkdir()
    target.write_text("foreign")
    path.symlink_to(target)
    invalid, folder_as_file, folder_removed, _ = host.bring_each(
        [
            {"path": str(good), "content": "x"},
            {"path": str(bad), "content": "goodbye", "validate": "grep --quiet hello %s"},
        ],
        [{"path": str(data), "content": "x"}],
        [{"path": str(data), "state": "absent"}],
        [{"path": str(path), "content": "ours"}],
    )
    assert f"{bad}: grep --quiet hello %s refused it" in invalid["msg"]
    assert not good.exists()
    assert bad.read_text() == "as it was"
    assert folder_as_file["msg"] == f"{data}: Is a directory"
    assert "is a folder" in folder_removed["msg"]
    assert data.is_dir()
    assert (path.is_symlink(), path.read_text(), target.read_text()) == (False, "ours", "foreign")
    assert sorted(file.name for file in host.folder.iterdir()) == ["bad", "data", "path", "target"]


def test_lists_of_files_that_are_alike_need_no_line_for_each(host: Host) -> None:
    own = f"owner='{USER['owner']}', group='{USER['group']}'"
    folder = str(host.folder)
    (host.folder / "old").write_text("x")
    host.bring_each(
        [f"{{{{ ['', 'a', 'b'] | hermes_files('{folder}/made', state='directory', {own}) }}}}"],
        [f"{{{{ ['greeting'] | hermes_files('{folder}', template='{{}}.j2', {own}) }}}}"],
        [f"{{{{ {{'new': 'y', 'old': ''}} | hermes_contents('{folder}', mode='0600', {own}) }}}}"],
    )
    assert sorted(path.name for path in (host.folder / "made").iterdir()) == ["a", "b"]
    assert (host.folder / "greeting").read_text() == "hello ada\n"
    assert ((host.folder / "new").read_text(), (host.folder / "old").read_text()) == ("y", "x")
