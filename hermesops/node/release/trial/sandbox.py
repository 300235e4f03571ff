"""Tries a release on a private copy of the state: a gateway of its own, which sees that copy in the state's place.

The tried gateway runs under the release's own unit, so the unit is tried with it. It has another port and another key,
and neither messengers nor cron jobs; what is mounted over the agent's home keeps it from the agent's own state.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from hermesops.node.errors import NotReadyError
from hermesops.node.instance.agent import readiness
from hermesops.node.instance.agent.check import Check
from hermesops.node.release import config_migration
from hermesops.node.release.slots import transient_unit
from hermesops.node.release.slots.unit import GATEWAY, unit_text
from hermesops.node.release.trial import state_copy
from hermesops.node.release.trial.plan import COPY, Side, Trial, Tried
from hermesops.node.system import as_user, systemd
from hermesops.node.system.as_user import AgentHome
from hermesops.node.system.files import is_mounted, opened_folder

TRIAL = "hermes-trial.service"
_MANAGED = Path("/run/hermes-node/trial")
_COPY_S = 600.0
_MOUNT_S = 30.0
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def exercise(trial: Trial, /) -> Tried:
    """Try a release on a private copy of the state; nothing of it stays.

    Raises:
        RefusedError: The copy does not fit.
        NotReadyError: It cannot be made.
    """
    started = time.monotonic()
    _end(trial)  # what a killed run left
    try:
        as_user.run(trial.home, "rehearse", timeout_s=_COPY_S)
        mount_copy(trial.home)
        tried = _tried(trial)
    finally:
        _end(trial)
    return Tried(tried.checks, tried.rollback_method, tried.why, round(time.monotonic() - started, 3))


def _tried(trial: Trial) -> Tried:
    before = _schemas(trial)
    found = (*_migrated(trial), *_run(trial, trial.new))
    if trial.old is None or not all(check.ok for check in found):
        return Tried(found)
    if trial.migrates:
        return Tried(found, "copy", "it writes the user's configuration in a newer form")
    after = _schemas(trial)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if not changed:
        return Tried(found)
    failing = next((check for check in _run(trial, trial.old) if not check.ok), None)
    what = f"it changes {', '.join(changed)}"
    if failing is None:
        return Tried(found, "in_place", what)
    return Tried(found, "copy", f"{what}, and the release before fails on that ({failing.name}: {failing.detail})")


def _schemas(trial: Trial) -> dict[str, str]:
    told = as_user.run(trial.home, "rehearsed", timeout_s=_COPY_S).get("schemas")
    if not isinstance(told, dict):
        raise NotReadyError("rehearsed: the errand said nothing that is understood")
    return {str(name): str(digest) for name, digest in told.items()}


def _migrated(trial: Trial) -> tuple[Check, ...]:
    if not trial.migrates:
        return ()
    _lay_managed(trial, trial.new)
    try:
        config_migration.run(trial.new.slot, trial.new.unit, *_bound(trial))
    except NotReadyError as error:
        return (Check("migration", ok=False, detail=str(error)),)
    return (Check("migration", ok=True),)


def _run(trial: Trial, side: Side) -> tuple[Check, ...]:
    _lay_managed(trial, side)
    transient_unit.lay(TRIAL, unit_text(side.unit, side.slot, GATEWAY, *_bound(trial)))
    systemd.systemctl("reset-failed", TRIAL, check=False)
    systemd.systemctl("start", "--no-block", TRIAL)
    try:
        return readiness.ask_all(systemd, trial.port, trial.key, unit=TRIAL, takes_turns=trial.takes_turns)
    finally:
        systemd.systemctl("stop", TRIAL, check=False)


def _lay_managed(trial: Trial, side: Side) -> None:
    _MANAGED.mkdir(mode=0o750, parents=True, exist_ok=True)
    for name, data in (("config.yaml", side.config), (".env", side.environment)):
        (_MANAGED / name).write_bytes(data)
        (_MANAGED / name).chmod(0o640)
        shutil.chown(_MANAGED / name, 0, trial.home.access.gid)
    shutil.chown(_MANAGED, 0, trial.home.access.gid)
    _MANAGED.chmod(0o750)


def _bound(trial: Trial) -> tuple[str, str]:
    """Lines of a unit that put the copy, and what is managed for the trial, in the place of the agent's own."""
    return f"BindPaths={COPY}:{trial.home.path}", f"BindReadOnlyPaths={_MANAGED}:/etc/hermes"


def mount_copy(home: AgentHome) -> None:
    """Mount the copy where the agent cannot put another in its place.

    systemd follows links in what it is told to mount, as root: the copy's own name would lead wherever the agent has a
    link lead by then, past what hides folders and processes from it.

    Raises:
        NotReadyError: Something else than the agent's own folder is there.
    """
    COPY.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as opened:
        folder = opened.enter_context(opened_folder(home.path))
        place = os.stat(folder)  # noqa: PTH116 - a descriptor
        for name in state_copy.folder(Path()).parts:
            folder = opened.enter_context(_opened_in(folder, name))
        found = os.stat(folder)  # noqa: PTH116 - a descriptor
        if (found.st_dev, found.st_uid) != (place.st_dev, home.access.uid):
            raise NotReadyError("the copy of the state was replaced by something else")
        # Not canonical: mount(8) would ask for the folder's name, and take whatever has that name now.
        _mount("mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{folder}", str(COPY), kept=folder)


@contextmanager
def _opened_in(folder: int, name: str) -> Iterator[int]:
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise NotReadyError(f"the copy of the state was replaced by something else: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _mount(*words: str, kept: int) -> None:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=_MOUNT_S, pass_fds=[kept], env=_ENVIRONMENT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReadyError(f"mount: {error}") from error
    if done.returncode:
        raise NotReadyError(f"the copy of the state cannot be mounted: {done.stderr.strip()[:300]}")


def _unmount_copy() -> None:
    """Lazily: a process of the tried gateway's that is still there keeps nobody from going on."""
    while is_mounted(COPY):
        done = subprocess.run(
            ["umount", "--lazy", str(COPY)], capture_output=True, check=False, timeout=_MOUNT_S, env=_ENVIRONMENT
        )
        if done.returncode:
            raise NotReadyError(f"{COPY} cannot be unmounted")


def _end(trial: Trial) -> None:
    transient_unit.take_away(TRIAL)
    _unmount_copy()
    shutil.rmtree(_MANAGED, ignore_errors=True)
    as_user.run(trial.home, "end_rehearsal", timeout_s=_COPY_S)
