"""Tries a release on a private copy of the state: a gateway of its own sees the copy in place of the state.

The tried gateway runs under the release's own unit, so the unit is tried with it. It has another port and another key,
and neither messengers nor cron jobs; mounts over the agent's home hide the agent's own state from it.
"""

import os
import secrets
import shutil
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from hermesops.programs.node.instance import render
from hermesops.programs.node.instance.agent import readiness
from hermesops.programs.node.instance.agent.installation import Agent
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.ports import Trial, TrialResult, TrialSlot
from hermesops.programs.node.release import config_migration
from hermesops.programs.node.release.slots import transient_unit
from hermesops.programs.node.release.slots.slot import base_of, record_of, schema_of, unit_of
from hermesops.programs.node.release.slots.transient_unit import GATEWAY, unit_text
from hermesops.programs.node.state import snapshots
from hermesops.programs.node.system import as_user, systemd
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.programs.node.system.files import is_mounted, opened_folder
from hermesops.wire import processes
from hermesops.wire.errors import NotReadyError
from hermesops.wire.layout import TRIAL_STATE
from hermesops.wire.protocol import Check, Payload
from hermesops.wire.settings import Settings

TRIAL = "hermes-trial.service"
_PORT = 8643
_MANAGED = Path("/run/hermes-node/trial")
_COPY_S = 600.0
_MOUNT_S = 30.0


def try_out(
    machine: Machine, agent: Agent, payload: Payload, release: str, *, before: str = "", takes_turns: bool = False
) -> TrialResult:
    """Try a release on a copy of the machine's state.

    The release ``before``, if named, must still run on the copy after the new release has changed it. Without a model
    for the agent, ``takes_turns`` is false and no turn is taken.

    Raises:
        RefusedError: The copy does not fit.
        NotReadyError: It cannot be made.
    """
    key = secrets.token_hex(32)
    new = _trial_slot(machine, release, payload, key)
    old = _trial_slot(machine, before, payload, key) if before else None
    migrates = config_migration.is_due(machine, agent, release)
    schema = schema_of(record_of(machine, release))
    return machine.slots.run_trial(Trial(agent.home, _PORT, key, takes_turns, new, old, migrates, schema))


def _trial_slot(machine: Machine, release: str, payload: Payload, key: str) -> TrialSlot:
    """The configuration of a slot for the trial: the instance's model, and none of its other settings.

    It has no connector: the user's messages are for the agent, and a second socket would close the agent's.
    """
    chosen = payload.settings
    settings = Settings(model=chosen.model, disabled_tools=chosen.disabled_tools, endpoint=chosen.endpoint)
    own_key = replace(payload.secrets, api_server_key=key)
    quiet = replace(payload, settings=settings, secrets=own_key, connector=None)
    slot = machine.layout.releases / release
    base = base_of(machine, release)
    base = replace(base, port=_PORT, environment={**base.environment, "VIRTUAL_ENV": str(slot / "venv")})
    unit = unit_of(machine, release).decode()
    return TrialSlot(slot, unit, render.managed_config(base, quiet), render.managed_environment(base, quiet))


def run_trial(trial: Trial, /) -> TrialResult:
    """Run a trial on a real machine; nothing of it stays.

    Raises:
        RefusedError: The copy does not fit.
        NotReadyError: It cannot be made.
    """
    started = time.monotonic()
    _clean_up(trial)  # what a killed run left
    try:
        as_user.run(trial.home, "make_trial_copy", str(trial.config_schema), timeout_s=_COPY_S)
        mount_copy(trial.home)
        result = _result(trial)
    finally:
        _clean_up(trial)
    return replace(result, seconds=round(time.monotonic() - started, 3))


def _result(trial: Trial) -> TrialResult:
    before = _schemas(trial)
    checks = (*_migrate(trial), *_run_gateway(trial, trial.new))
    if trial.old is None or not all(check.ok for check in checks):
        return TrialResult(checks)
    if trial.migrates:
        return TrialResult(checks, "copy", "it writes the user's configuration in a newer form")
    after = _schemas(trial)
    changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    if not changed:
        return TrialResult(checks)
    failing = next((check for check in _run_gateway(trial, trial.old) if not check.ok), None)
    why = f"it changes {', '.join(changed)}"
    if failing is None:
        return TrialResult(checks, "in_place", why)
    why = f"{why}, and the release before fails on that ({failing.name}: {failing.detail})"
    return TrialResult(checks, "copy", why)


def _schemas(trial: Trial) -> dict[str, str]:
    schemas = as_user.run(trial.home, "trial_schemas", timeout_s=_COPY_S).get("schemas")
    if not isinstance(schemas, dict):
        raise NotReadyError("trial_schemas: its report is not understood")
    return {str(name): str(digest) for name, digest in schemas.items()}


def _migrate(trial: Trial) -> tuple[Check, ...]:
    if not trial.migrates:
        return ()
    _write_managed(trial, trial.new)
    try:
        config_migration.run(trial.new.slot, trial.new.unit, *_mounts(trial))
    except NotReadyError as error:
        return (Check("migration", ok=False, detail=str(error)),)
    return (Check("migration", ok=True),)


def _run_gateway(trial: Trial, side: TrialSlot) -> tuple[Check, ...]:
    _write_managed(trial, side)
    transient_unit.install(TRIAL, unit_text(side.unit, side.slot, GATEWAY, *_mounts(trial)))
    systemd.systemctl("reset-failed", TRIAL, check=False)
    systemd.systemctl("start", "--no-block", TRIAL)
    try:
        return readiness.ask_all(systemd, trial.port, trial.key, unit=TRIAL, takes_turns=trial.takes_turns)
    finally:
        systemd.systemctl("stop", TRIAL, check=False)


def _write_managed(trial: Trial, side: TrialSlot) -> None:
    _MANAGED.mkdir(mode=0o750, parents=True, exist_ok=True)
    for name, data in (("config.yaml", side.config), (".env", side.environment)):
        (_MANAGED / name).write_bytes(data)
        (_MANAGED / name).chmod(0o640)
        shutil.chown(_MANAGED / name, 0, trial.home.access.gid)
    shutil.chown(_MANAGED, 0, trial.home.access.gid)
    _MANAGED.chmod(0o750)


def _mounts(trial: Trial) -> tuple[str, str]:
    """Lines of a unit that mount the copy, and the trial's managed files, over the agent's own."""
    return f"BindPaths={TRIAL_STATE}:{trial.home.path}", f"BindReadOnlyPaths={_MANAGED}:/etc/hermes"


def mount_copy(home: AgentHome) -> None:
    """Mount the copy at a path that the agent cannot replace.

    systemd, as root, follows links in mount sources: the agent could replace the copy by a link, past the mounts that
    hide folders and processes from it.

    Raises:
        NotReadyError: The folder was replaced, or is not the agent's own.
    """
    replaced = "the copy of the state was replaced by something else"
    TRIAL_STATE.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as opened:
        folder = opened.enter_context(opened_folder(home.path))
        place = os.stat(folder)  # noqa: PTH116 - a descriptor
        try:
            for name in snapshots.trial_folder(Path()).parts:
                folder = opened.enter_context(opened_folder(Path(name), within=folder))
        except NotReadyError as error:
            raise NotReadyError(f"{replaced}: {error}") from error
        status = os.stat(folder)  # noqa: PTH116 - a descriptor
        if (status.st_dev, status.st_uid) != (place.st_dev, home.access.uid):
            raise NotReadyError(replaced)
        # Not canonical: mount(8) would ask for the folder's name, and take whatever has that name now.
        words = ("mount", "--no-canonicalize", "--bind", f"/proc/self/fd/{folder}", str(TRIAL_STATE))
        done = processes.run(words, timeout_s=_MOUNT_S, pass_fds=[folder])
        if done.returncode:
            raise NotReadyError(f"the copy of the state cannot be mounted: {processes.last_line(done)}")


def unmount_copy() -> None:
    """Unmount the copy, lazily: a process of the tried gateway's that is still there must not block this."""
    while is_mounted(TRIAL_STATE):
        if processes.run(("umount", "--lazy", str(TRIAL_STATE)), timeout_s=_MOUNT_S).returncode:
            raise NotReadyError(f"{TRIAL_STATE} cannot be unmounted")


def _clean_up(trial: Trial) -> None:
    transient_unit.remove(TRIAL)
    unmount_copy()
    shutil.rmtree(_MANAGED, ignore_errors=True)
    as_user.run(trial.home, "remove_trial_copy", timeout_s=_COPY_S)
