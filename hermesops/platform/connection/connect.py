"""Points an environment of this computer at its platform: settings, keys, and the registry's rows."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hermesops.access.pki.authority import Authority
from hermesops.base.files.private_file import make_private_folder, replace_secret
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.infra.engine.embedded.state.bucket import BucketAccess
from hermesops.infra.engine.embedded.state.folder_copy import FolderCopy
from hermesops.infra.engine.embedded.state.storage import open_storage
from hermesops.model.access.certificate import CallerName
from hermesops.platform.connection.registry_move import RegistryMove, unmark_moved
from hermesops.platform.connection.settings import (
    PlatformFiles,
    SettingChange,
    changes_of,
    is_connected,
    write_settings,
)
from hermesops.platform.host import run_on_host
from hermesops.platform.parts.control import OPERATOR
from hermesops.platform.parts.tls import client_pair, is_of_caller
from hermesops.platform.parts.users import USERS_DOWN
from hermesops.settings.environment import Environment
from hermesops.vendor.channel import Channel

UNITS = tuple(f"hermesops-{process}.service" for process in ("worker", "monitor", "identity", "relay"))
"""Of role ``hermes_platform_control``: they work with a registry that has this environment's rows, and no other."""

_STORE = "/etc/hermes-platform/secrets/object-store"
_BUCKETS = ("backups", "releases", "pulumi-state")
_CELL_STATES = tuple(f".pulumi/{kind}/fleet" for kind in ("stacks", "history", "backups"))
_COMMAND_S = 120.0


@dataclass(frozen=True)
class Connected:
    """The result of connecting.

    Attributes:
        rows: Rows of the registry that were copied; 0 when they had been before.
        epoch: The registry's, which began with it; 0 where everything was as it should be.
        files: Files of releases and of Pulumi's state that were copied.
        audit: What was verified of the audit, in a line; empty where no row was moved.
        moves_backups: Whether backups go to the platform's store.
    """

    settings: Sequence[SettingChange]
    rows: int
    epoch: int
    files: int
    moves_backups: bool
    audit: str = ""


@dataclass(frozen=True)
class Disconnected:
    """The result of disconnecting.

    Attributes:
        epoch: The registry's, which began with it.
        audit: What was verified of the audit, in a line.
    """

    epoch: int
    audit: str


@dataclass(frozen=True)
class PlatformConnection:
    """Connects and disconnects one environment.

    Killed anywhere, the same once more finishes.

    Args:
        wanted: The settings with the platform, by name.
        channel: To the platform's host.
        registry: Moves the registry to the platform's database, and back.
        copies: Folders of this computer that are copied into the platform's buckets.
        door: File of the world that names the door by which users are served; there while they are.
    """

    env: Environment
    wanted: Mapping[str, str]
    channel: Channel
    load_authority: Callable[[], Authority]
    authorities: Callable[[], str]
    registry: RegistryMove
    copies: Callable[[], Sequence["FolderCopy"]]
    door: Path
    report: Callable[[str], None]

    def changes(self) -> tuple[SettingChange, ...]:
        """Settings that connecting would change, with their values before and after.

        Raises:
            RefusedError: A variable sets one of them, and would win.
        """
        return changes_of(self.env, self.wanted)

    async def connect(self, *, despite: str = "") -> Connected:
        """Write the settings of the platform and copy the registry to it.

        Args:
            despite: Why a registry with a broken audit is moved, for the audit; it stays broken. Empty refuses it.

        Raises:
            RefusedError: An operation is open, the audit is broken, or the platform's registry has rows of its own.
            UnavailableError: The platform's host or its database does not answer.
        """
        files, changes, moves_backups = PlatformFiles(self.env), self.changes(), "backup.bucket" in self.wanted
        await self._lay_files(files)
        if is_connected(self.env) and not changes:
            await run_on_host(self.channel, f"systemctl enable --now {' '.join(UNITS)}")
            return Connected((), 0, 0, 0, moves_backups)
        source = await asyncio.to_thread(self.registry.verified, despite)  # before anything stops
        await self._stop()  # nobody there may write what is replaced now
        self.report("copying the registry's rows")
        rows, epoch = await asyncio.to_thread(self.registry.move, source, despite)
        copied = 0
        for copy in self.copies():
            self.report(f"copying {copy.what}")
            copied += await asyncio.to_thread(copy.run)
        write_settings(files, self.wanted)
        await run_on_host(self.channel, f"systemctl enable --now {' '.join(UNITS)}")
        return Connected(changes, rows, epoch, copied, moves_backups, source.told if source else "")

    async def undo(self, *, despite: str = "") -> Disconnected:
        """Go back to the settings from before, and to the registry in SQLite as it was then.

        Args:
            despite: As in ``connect``: somebody may have edited the file meanwhile.

        Raises:
            RefusedError: The environment is not connected, the file's audit is broken, or an operation is open.
        """
        files = PlatformFiles(self.env)
        if not files.before.exists():
            raise RefusedError(f"environment {self.env.name} is not connected to a platform")
        source = await asyncio.to_thread(self.registry.verified, despite)
        await self._stop()
        epoch, audit = await asyncio.to_thread(self.registry.take_back, source, despite)
        files.before.replace(files.settings)
        return Disconnected(epoch, audit.told)

    async def _stop(self) -> None:
        """Stop what works with the platform's registry. Users are served again once roles are applied the next time."""
        self.door.unlink(missing_ok=True)
        await run_on_host(self.channel, USERS_DOWN)
        await run_on_host(self.channel, f"systemctl disable --now {' '.join(UNITS)}")

    async def _lay_files(self, files: PlatformFiles) -> None:
        make_private_folder(files.folder)
        replace_secret(files.authorities, self.authorities())
        authority, caller = self.load_authority(), CallerName(self.env.name, OPERATOR)
        shown = files.certificate.read_text() if files.certificate.exists() else ""
        if not is_of_caller(shown, caller, authority, datetime.now(UTC)):
            pair = client_pair(authority, caller)
            replace_secret(files.key, pair.key)
            replace_secret(files.certificate, pair.pem)
        keys = {name: await self._read(f"{_STORE}/{name}") for name in _BUCKETS}
        replace_secret(files.backup_key, keys["backups"])
        profiles = (keys[name].replace("[default]", f"[{name}]") for name in _BUCKETS[1:])
        replace_secret(files.store_keys, "\n".join(profiles))

    async def _read(self, file: str) -> str:
        done = await self.channel.run(f"cat {file}", timeout_s=_COMMAND_S)
        if done.exit_code:
            raise UnavailableError(f"the platform's host has no {file}", hint=Hint(("stack", "up", "platform")))
        return done.text


def folder_copies(env: Environment, settings: Mapping[str, str]) -> list[FolderCopy]:
    """Copies of this computer's releases and Pulumi states into the platform's buckets.

    Args:
        settings: With the platform, by name.
    """
    files = PlatformFiles(env)
    access = BucketAccess(files.store_keys, files.authorities)
    releases = open_storage(settings["releases"], setting="releases", access=access)
    states = open_storage(settings["pulumi.backend"], access=access)
    return [
        FolderCopy("releases", env.folder / "releases", releases),
        *(FolderCopy("Pulumi's state", env.folder / "pulumi", states, below) for below in _CELL_STATES),
    ]


def take_back(env: Environment) -> None:
    """Have the settings and the registry from before count again, where the platform is gone."""
    files = PlatformFiles(env)
    unmark_moved(f"sqlite:///{env.folder / 'registry.db'}")
    files.before.replace(files.settings)
