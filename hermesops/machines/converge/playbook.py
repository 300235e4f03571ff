"""Runs a playbook over the toolbox by ansible-runner, in a private folder that is gone afterwards."""

import asyncio
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from hermesops.base import child_environment
from hermesops.base.extras import Extra, require
from hermesops.errors import BrokenInvariantError, UnknownOutcomeError, UsageError
from hermesops.machines.converge.inventory import Host, inventory_of
from hermesops.machines.converge.results import Converged, EventFold
from hermesops.machines.converge.variables import literal, secret_lines, without

_FOLDER_PREFIX = "hermesops-converge-"
_OUTPUT_LINES = 40
_STOP_CHECK_S = 1
"""Seconds after which ansible-runner notices that it should stop."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Access:
    """Access of Ansible's own process to the machines.

    Attributes:
        api_url: Base URL of JustAVPS's API, with ``/api/v1``.
        api_key_file: File with the key; only its path is handed on.
    """

    api_url: str
    api_key_file: Path


class Converger:
    """Runs the playbooks of one folder.

    Args:
        folder: Our ``ansible/``, with ``ansible.cfg`` and ``playbooks/``.
        forks: Hosts worked on at once.
    """

    def __init__(self, folder: Path, access: Access, *, forks: int = 10) -> None:
        self._folder = folder
        self._access = access
        self._forks = forks

    async def run(
        self,
        playbook: str,
        hosts: Sequence[Host],
        *,
        variables: Mapping[str, object] | None = None,
        check: bool = False,
        timeout_s: float = 1800,
        report: Callable[[str], None] | None = None,
    ) -> Converged:
        """Apply a playbook to hosts; safe to repeat.

        A host that fails or cannot be reached is a result, not an error: see ``Converged.require_ok``. When the caller
        is cancelled, Ansible is ended first; a command that it had sent may still run to its end on the machine.

        Args:
            playbook: Name of a file in ``playbooks/``, with or without ``.yml``; or the path of one.
            variables: Ansible variables that win over every other; may hold secrets.
            check: Only find out what would change.
            report: Called, from another thread, with each task's name as it starts.

        Raises:
            UsageError: No such playbook, no host, or no Ansible.
            UnknownOutcomeError: It took longer than ``timeout_s`` and was ended.
            BrokenInvariantError: Ansible refused the playbook itself, so no host was touched.
        """
        require(Extra.ROLES, "applying roles")
        path = self._path_of(playbook)
        inventory = inventory_of(hosts)
        fold = EventFold(tuple(host.name for host in hosts), report)
        started = time.monotonic()
        with private_folder() as folder:
            (folder / "inventory.yml").write_text(json.dumps(literal(inventory)))
            (folder / "variables.json").write_text(json.dumps(literal(variables or {})))
            arguments = self._arguments(folder, path, check=check, timeout_s=timeout_s)
            status = await _to_end(arguments, fold)
            output = _output_in(folder)
        seconds = time.monotonic() - started
        _log.info("playbook_ended", playbook=path.stem, hosts=len(hosts), status=status, seconds=round(seconds, 1))
        if status == "timeout":
            raise UnknownOutcomeError(
                f"{path.stem} took longer than {timeout_s:g} s and was ended; machines may be halfway",
                hint="repeat the same command: finished steps are skipped",
            )
        if not fold.finished:
            tail = " ".join(output.split())[-600:]
            raise BrokenInvariantError(f"ansible-playbook ended without a result ({status}): {tail or 'no output'}")
        done = Converged(path.stem, fold.results(), seconds, output)
        if any(host.failure and host.failure.log for host in done.hosts.values()):
            secrets = secret_lines(variables or {}, self._folder.parent / "roles")
            done = done.hiding(lambda line: without(line, secrets))
        return done

    async def apply(
        self,
        machine_id: str,
        playbook: str,
        variables: Mapping[str, object],
        *,
        report: Callable[[str], None] | None = None,
    ) -> None:
        """Apply a playbook to one machine, in the registry or not; safe to repeat.

        Raises:
            UnavailableError: It could not be reached.
            PartlyDoneError: A task failed; the message names it.
        """
        host = Host(machine_id, machine_id)
        (await self.run(playbook, [host], variables=variables, report=report)).require_ok()

    def _path_of(self, playbook: str) -> Path:
        ours = self._folder / "playbooks"
        path = ours / f"{playbook.removesuffix('.yml')}.yml"
        if not path.is_file() and playbook.endswith(".yml"):
            path = Path(playbook)
        if not path.is_file():
            known = sorted(p.stem for p in ours.glob("*.yml"))
            raise UsageError(f"no playbook {playbook}", hint=f"there are: {', '.join(known)}")
        return path.absolute()

    def _arguments(self, folder: Path, playbook: Path, *, check: bool, timeout_s: float) -> dict[str, Any]:
        return {
            "private_data_dir": str(folder),
            "playbook": str(playbook),
            "inventory": str(folder / "inventory.yml"),
            "forks": self._forks,
            # By file: ansible-runner would put them on the command line, where everybody can read them.
            "cmdline": f"-e @{folder / 'variables.json'}" + (" --check --diff" if check else ""),
            "envvars": {
                **child_environment.made(child_environment.NETWORK),
                "ANSIBLE_CONFIG": str(self._folder / "ansible.cfg"),
                "HERMESOPS_API_URL": self._access.api_url,
                "HERMESOPS_API_KEY_FILE": str(self._access.api_key_file),
                "ANSIBLE_LOCAL_TEMP": str(folder / "local"),
                "ANSIBLE_NOCOLOR": "1",
                # The ansible-playbook of our own environment first, also where that is not activated.
                "PATH": os.pathsep.join([str(Path(sys.executable).parent), *os.get_exec_path()]),
                "PYTHONUNBUFFERED": "1",
            },
            "settings": {"pexpect_timeout": _STOP_CHECK_S},
            "timeout": int(timeout_s) or 1,
            "quiet": True,
        }


async def _to_end(arguments: dict[str, Any], fold: EventFold) -> str:
    """Run ansible-runner in a thread; its word for how it ended. A cancelled caller waits until it has stopped."""
    stop = threading.Event()

    def blocking() -> str:
        # It costs 0.2 s to import and most commands never converge.
        import ansible_runner  # noqa: PLC0415 - as above

        def take(event: Mapping[str, Any]) -> bool:
            fold.take(event)
            return False  # no file of the event: it would only fill the folder

        runner = ansible_runner.interface.init_runner(**arguments, event_handler=take, cancel_callback=stop.is_set)
        # ansible-runner starts from all variables of this process; only what it sets by itself is kept.
        # Source: ansible-runner 2.4, ``prepare_env`` and ``prepare_command`` in ``config/_base.py``.
        runner.config.env = {**child_environment.not_ours(runner.config.env), **arguments["envvars"]}
        # Its session is its own, so neither Ctrl-C nor the end of this process would reach it: the kernel ends it.
        runner.config.command = ["setpriv", "--pdeathsig=TERM", *runner.config.command]
        runner.run()
        return str(runner.status)

    work = asyncio.ensure_future(asyncio.to_thread(blocking))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([work])
        raise


def _output_in(folder: Path) -> str:
    """The last non-empty lines of Ansible's output in a run's folder."""
    files = (file for name in ("stdout", "stderr") for file in sorted(folder.glob(f"artifacts/*/{name}")))
    text = "".join(file.read_text(errors="replace") for file in files)
    return "\n".join(line for line in text.splitlines()[-_OUTPUT_LINES:] if line.strip())


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of mode 0700, removed at the end, or, after a ``kill -9`` of this process, by the next run."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(temporary: Path) -> None:
    """Remove folders of this user's dead processes: they may hold secrets."""
    for folder in temporary.glob(f"{_FOLDER_PREFIX}*-*"):
        pid = folder.name.removeprefix(_FOLDER_PREFIX).partition("-")[0]
        # Not exists() alone: a folder of a foreign name or user stays.
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and folder.lstat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
