"""What no task of a role may do: wait for what never comes and go on, or leave a restart to what a kill forgets."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from hermesops.base import assets
from tests.support.suite.cases import each_case

FILES = sorted(assets.folder("roles").glob("*/tasks/*.yml")) + sorted(assets.folder("roles").glob("*/handlers/*.yml"))

_FIREWALL = "Load the firewall rules"
"""The handler of hermes_base: a firewall is loaded under a timer that takes it back."""


def _tasks(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for task in documents:
        yield task
        for part in ("block", "rescue", "always"):
            yield from _tasks(task.get(part, []))


@each_case("file", FILES, ids=lambda path: f"{path.parts[-3]}/{path.stem}")
def test_no_wait_that_has_run_out_goes_on(file: Path) -> None:
    """Ansible takes ``failed_when`` for its word also where ``until`` never came true."""
    waits = [task for task in _tasks(yaml.safe_load(file.read_text()) or []) if "until" in task]
    assert [task["name"] for task in waits if "failed_when" in task or task.get("ignore_errors")] == []


@each_case("file", FILES, ids=lambda path: f"{path.parts[-3]}/{path.parts[-2]}/{path.stem}")
def test_only_roles_that_must_not_restart_what_runs_remember_to_restart(file: Path) -> None:
    """A notified handler is forgotten by a run that is killed before it: see decision 58."""
    remembering = {"hermes_gateway", "hermes_data"}
    if file.parts[-3] in remembering:
        return
    tasks = list(_tasks(yaml.safe_load(file.read_text()) or []))
    assert [task["name"] for task in tasks if task.get("notify", _FIREWALL) != _FIREWALL] == []
    units = [task["name"] for task in tasks if "ansible.builtin.systemd_service" in task]
    assert units in ([], [_FIREWALL])
