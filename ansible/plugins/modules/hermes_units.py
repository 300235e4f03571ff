"""Brings units of systemd to what a list says, all of them in one request: enabled, running, and with today's files."""

from __future__ import annotations

import http.client
import os
import socket
import time
import urllib.parse
import urllib.request
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ansible.module_utils.basic import AnsibleModule

if TYPE_CHECKING:
    from collections.abc import Callable

DOCUMENTATION = """
name: hermes_units
short_description: Bring units of systemd to what they should be, in one request
description:
    - What C(systemd_service), handlers that restart and loops that wait do in many requests.
    - >-
        A service runs with old files where one of them is newer than its last start or reload. That is looked at, not
        remembered as a handler's notification is: a run that is killed between a file and the restart loses nothing.
    - >-
        Ages are by two clocks of the machine, and the longer one counts. Where the clock was set back, a restart may be
        made again.
    - All units start in one transaction, in the order that their dependencies say.
author: hermesops
options:
    units:
        description: Units, each with what it reads.
        type: list
        elements: dict
        required: true
        suboptions:
            name:
                description: Its name, with what follows the last point.
                type: str
                required: true
            state:
                description: >-
                    C(started) runs now and at every boot, C(enabled) at every boot and now if it does so already,
                    C(stopped) never. C(kept) is left as it is, or left out where there is none. Whatever the state,
                    one that runs reads its files again.
                type: str
                default: started
                choices: [started, enabled, stopped, kept]
            restart:
                description: >-
                    Files that it reads at its start only, its unit's own files aside; a folder stands for what is in
                    it. What is not there counts as unchanged.
                type: list
                elements: path
                default: []
            reload:
                description: Files that it reads again at a reload. One that cannot reload is restarted.
                type: list
                elements: path
                default: []
            answers:
                description: >-
                    URL that answers 200 once it can be used, or C(tcp://host:port) that takes a connection; without one
                    it can be used when systemd says that it runs.
                type: str
            within:
                description: Seconds that it may take until it can be used.
                type: int
                default: 60
"""

EXAMPLES = """
- name: Run the service, now and at every boot
  hermes_units:
    units:
      - name: example.service
        restart: [/etc/example/settings, /usr/local/bin/example]
        reload: [/etc/example/rules]
        answers: http://127.0.0.1:8080/ready
"""

RETURN = """
unit:
    description: The unit that kept this from being done.
    type: str
    returned: where one does not come up
log:
    description: The last lines that it wrote itself, cut.
    type: list
    elements: str
    returned: where one does not come up
changed_units:
    description: What was done, each as the unit's name and one of enable, disable, start, restart, reload, stop.
    type: list
    elements: str
    returned: always
"""

_UNIT = {
    "name": {"required": True},
    "state": {"default": "started", "choices": ["started", "enabled", "stopped", "kept"]},
    "restart": {"type": "list", "elements": "path", "default": []},
    "reload": {"type": "list", "elements": "path", "default": []},
    "answers": {},
    "within": {"type": "int", "default": 60},
}
_SHOWN = (
    "LoadState,ActiveState,UnitFileState,FragmentPath,DropInPaths,Result,"
    "InactiveExitTimestamp,InactiveExitTimestampMonotonic,StateChangeTimestamp,StateChangeTimestampMonotonic"
)
_POLL_S = 0.25
_LOG_LINES = 10
_LOG_CHARS = 300
"""Of each line; the controller hides secrets in them."""
_ANSWER_S = 2.0
_AT_BOOT = ("started", "enabled")
_RUNNING = ("active", "reloading", "activating")


@dataclass(frozen=True)
class Unit:
    """One unit as it should be."""

    name: str
    state: str
    restart: list[str]
    reload: list[str]
    answers: str | None
    within: int


@dataclass(frozen=True)
class Found:
    """One unit as it is.

    Attributes:
        files: The unit's own, as systemd names them.
        started_s: How long ago its last start began, in seconds.
        changed_s: How long ago it last changed its state, which a reload does as well, in seconds.
    """

    is_there: bool
    active: str
    enabled: str
    files: list[str]
    result: str
    started_s: float
    changed_s: float


def switch_of(wanted: Unit, found: Found) -> str | None:
    """What makes a unit start at every boot or no more; None where nothing is to be done."""
    if wanted.state in _AT_BOOT and found.enabled in ("", "disabled"):
        return "enable"
    return "disable" if wanted.state == "stopped" and found.enabled == "enabled" else None


def step_of(wanted: Unit, found: Found, age_of: Callable[[list[str]], float]) -> str | None:
    """What brings a unit to what it should be; None where nothing is to be done.

    Args:
        age_of: Says for a list of files how many seconds ago the newest changed; infinite where none is there.
    """
    runs = found.active in _RUNNING
    if wanted.state == "stopped":
        return "stop" if runs else None
    if not runs:
        return "start" if wanted.state == "started" else None
    if age_of([*found.files, *wanted.restart]) < found.started_s:
        return "restart"
    return "reload" if age_of(wanted.reload) < found.changed_s else None


def age_of(paths: list[str]) -> float:
    """How many seconds ago the newest of these files changed; a folder stands for itself and what is in it."""
    changes = [_changed_at(path) for path in paths]
    for folder in (Path(path) for path in paths):
        changes += [_changed_at(str(one)) for one in folder.rglob("*")] if folder.is_dir() else []
    return time.time() - max(changes, default=float("-inf"))


def _changed_at(path: str) -> float:
    # Of a link itself: that is what is replaced. A change of owner or permissions counts, an old time given to it not.
    try:
        return os.lstat(path).st_ctime
    except (FileNotFoundError, NotADirectoryError):
        return float("-inf")


def bring(module: AnsibleModule, wanted: list[Unit]) -> list[str]:
    """Bring all of them to what they should be; what was done, or would be."""
    found = _look(module, wanted)
    missing = [unit for unit in wanted if unit.state in _AT_BOOT and not found[unit.name].is_there]
    if not module.check_mode and (missing or _has_old_units(module)):
        _systemctl(module, "daemon-reload")
        found = _look(module, wanted)
    done = _do(module, {unit.name: switch_of(unit, found[unit.name]) for unit in wanted}, "enable", "disable")
    steps = {unit.name: step_of(unit, found[unit.name], age_of) for unit in wanted}
    done += _do(module, steps, "stop")
    failed = [name for name, step in steps.items() if step == "start" and found[name].active == "failed"]
    if failed and not module.check_mode:
        _systemctl(module, "reset-failed", *failed)  # else one that failed too often stays down
    # One transaction for both: what waits for another is started or restarted after it.
    done += _do(module, steps, "start", "restart")
    done += _do(module, steps, "reload")
    if not module.check_mode:
        _wait(module, [unit for unit in wanted if unit.state == "started"], done)
    return done


def _do(module: AnsibleModule, steps: dict[str, str | None], *kinds: str) -> list[str]:
    verbs = {"start": "restart", "reload": "reload-or-restart"}
    done = [(name, step) for name, step in steps.items() if step in kinds]
    calls: dict[str, list[str]] = {}
    for name, step in done:
        calls.setdefault(verbs.get(step, step), []).append(name)
    for verb, names in calls.items() if not module.check_mode else ():
        _systemctl(module, verb, *names)
    return [f"{name} {step}" for name, step in done]


def _systemctl(module: AnsibleModule, verb: str, *names: str) -> None:
    code, _, err = module.run_command(["systemctl", "--quiet", verb, *names])
    if code:
        unit = next((name for name in names if name in err), "")
        log = _last_lines(module, unit) if unit else []
        module.fail_json(msg=f"systemctl {verb} {' '.join(names)}: {err.strip()[-2000:]}", unit=unit, log=log)


def _last_lines(module: AnsibleModule, unit: str) -> list[str]:
    """The end of a unit's log; without systemd's own words on it, which only repeat that it failed."""
    asked = ["journalctl", "--quiet", "--no-pager", "--output=cat", f"--lines={_LOG_LINES}", f"_SYSTEMD_UNIT={unit}"]
    _, out, _ = module.run_command(asked, errors="replace")
    return [line[:_LOG_CHARS] for line in out.splitlines() if line.strip()][-_LOG_LINES:]


def _has_old_units(module: AnsibleModule) -> bool:
    """Whether a unit has changed since systemd read it: any one, as timers and sockets start others."""
    _, out, _ = module.run_command(["systemctl", "show", "--all", "--property=NeedDaemonReload", "*"])
    return "NeedDaemonReload=yes" in out.splitlines()


def _look(module: AnsibleModule, wanted: list[Unit]) -> dict[str, Found]:
    names = [unit.name for unit in wanted]
    _, out, err = module.run_command(["systemctl", "show", "--timestamp=us+utc", f"--property={_SHOWN}", "--", *names])
    blocks = [dict(line.partition("=")[::2] for line in block.splitlines()) for block in out.strip().split("\n\n")]
    if len(blocks) != len(names):
        module.fail_json(msg=f"systemctl show {' '.join(names)}: {err.strip()[-2000:]}")
    return {name: _found(block) for name, block in zip(names, blocks, strict=True)}


def _found(block: dict[str, str]) -> Found:
    return Found(
        is_there=block.get("LoadState") in ("loaded", "masked"),
        active=block.get("ActiveState", ""),
        enabled=block.get("UnitFileState", ""),
        files=[*block.get("FragmentPath", "").split(), *block.get("DropInPaths", "").split()],
        result=block.get("Result", ""),
        started_s=_seconds_since(block, "InactiveExitTimestamp"),
        changed_s=_seconds_since(block, "StateChangeTimestamp"),
    )


def _seconds_since(block: dict[str, str], name: str) -> float:
    """The longer one by two clocks: one stands still while a machine is paused, the other one may be set."""
    steady_s = time.clock_gettime(time.CLOCK_MONOTONIC) - int(block.get(f"{name}Monotonic") or 0) / 1e6
    _, _, shown = block.get(name, "").partition(" ")  # after the name of the day
    if not shown:
        return steady_s
    at = datetime.strptime(shown, "%Y-%m-%d %H:%M:%S.%f %Z").replace(tzinfo=UTC)
    return max(steady_s, time.time() - at.timestamp())


def _wait(module: AnsibleModule, wanted: list[Unit], done: list[str]) -> None:
    begun_s = time.monotonic()
    left = wanted
    while left:
        found = _look(module, left)
        left = [unit for unit in left if found[unit.name].active != "active" or not _answers(unit.answers)]
        for unit in left:
            state = found[unit.name]
            if state.active == "failed" or time.monotonic() - begun_s > unit.within:
                why = (
                    f"is {state.active} ({state.result})"
                    if state.active != "active"
                    else f"{unit.answers} does not answer"
                )
                log = _last_lines(module, unit.name)
                module.fail_json(msg=f"{unit.name}: {why}", unit=unit.name, log=log, changed_units=done)
        if left:
            time.sleep(_POLL_S)  # noqa: TID251 - on the machine, where there is no hermesops


def _answers(url: str | None) -> bool:
    parts = urllib.parse.urlsplit(url or "")
    try:
        if parts.scheme == "tcp":
            socket.create_connection((parts.hostname, parts.port), _ANSWER_S).close()
        elif url:
            opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            opener.open(url, timeout=_ANSWER_S).close()  # raises for an answer other than 200
    except (OSError, http.client.HTTPException):
        return False
    return True


def main() -> None:
    """Run as Ansible's module."""
    module = AnsibleModule(
        argument_spec={"units": {"type": "list", "elements": "dict", "required": True, "options": _UNIT}},
        supports_check_mode=True,
    )
    done = bring(module, [Unit(**one) for one in module.params["units"]])
    module.exit_json(changed=bool(done), changed_units=done)


if __name__ == "__main__":
    main()
