"""Protocols for reading and changing a machine: deciding code uses the computer only through them.

On a real machine they are modules of this package; simulated machines implement them in memory. ``node.machine`` puts
them together. The implementations document the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TextIO

from hermesops.programs.node.system.https import PlatformAnswer
from hermesops.wire.protocol import Check, Credential

if TYPE_CHECKING:  # what copies the state is a quarter of all imports, and ``node.machine`` imports it where it is used
    from contextlib import AbstractContextManager
    from pathlib import Path

    from hermesops.programs.node.instance.agent.api import Answer
    from hermesops.programs.node.state.adapter import Copied
    from hermesops.programs.node.state.snapshots import RestoreResult
    from hermesops.programs.node.system.as_user import AgentHome
    from hermesops.programs.node.system.data_volume import VolumeState
    from hermesops.programs.node.system.files import Access, LogPiece
    from hermesops.programs.node.system.restic import Repository
    from hermesops.wire.documents.lock import Blob, Lock
    from hermesops.wire.documents.signers import Kind


class Files(Protocol):
    """Reading and writing as root: ``node.system.files``."""

    def opened_folder(self, path: Path, /) -> AbstractContextManager[int]: ...
    def read(self, path: Path, /) -> bytes | None: ...
    def take(self, path: Path, /, *, limit: int) -> bytes: ...
    def link_target(self, path: Path, /) -> Path | None: ...
    def exists(self, folder: int, name: str, /) -> bool: ...
    def tail(self, folder: int, name: str, /, *, limit: int) -> bytes: ...
    def read_on(self, folder: int, name: str, /, *, inode: int, offset: int, limit: int) -> LogPiece | None: ...
    def size(self, folder: int, name: str, /) -> int | None: ...
    def write(self, folder: int, name: str, data: bytes, access: Access, /) -> None: ...
    def differs(self, path: Path, data: bytes, access: Access, /) -> bool: ...
    def write_if_changed(self, path: Path, data: bytes, access: Access, /) -> bool: ...
    def remove(self, folder: int, name: str, /) -> bool: ...
    def locked(self, path: Path, /, *, limit_s: float = ...) -> AbstractContextManager[None]: ...


class System(Protocol):
    """Accounts, systemd, the agent's API, time: ``node.system.systemd``."""

    def account(self, user: str, /) -> Access | None: ...
    def systemctl(self, *words: str, check: bool = True) -> str: ...
    def ask(
        self,
        port: int,
        path: str,
        /,
        *,
        key: str = "",
        body: Mapping[str, Any] | None = None,
        method: str = "",
        timeout_s: float = 5.0,
        largest: int | None = None,
    ) -> Answer: ...
    def connections(self, port: int, /) -> int: ...
    def now(self) -> float: ...
    def monotonic(self) -> float: ...
    def sleep(self, seconds: float, /) -> None: ...


class State(Protocol):
    """The agent's state, nothing of which is touched as root: ``node.state.adapter``."""

    def observe(self, home: AgentHome, /) -> tuple[dict[str, Any], int]: ...
    def check_databases(self, home: AgentHome, /) -> dict[str, bool]: ...
    def save(self, home: AgentHome, repository: Repository, access: Access, /) -> Copied: ...
    def fetch(self, home: AgentHome, repository: Repository, access: Access, /) -> Copied: ...
    def switch(self, home: AgentHome, /) -> None: ...
    def settle(self, home: AgentHome, /) -> None: ...
    def forget(self, home: AgentHome, /) -> None: ...
    def export(self, home: AgentHome, out: TextIO, /) -> None: ...
    def keep(self, home: AgentHome, name: str, /) -> None: ...
    def preview(self, home: AgentHome, name: str, /) -> RestoreResult: ...
    def preview_config(self, home: AgentHome, schema: int, /) -> RestoreResult: ...
    def restore(self, home: AgentHome, name: str, /) -> RestoreResult: ...
    def keep_config(self, home: AgentHome, /) -> None: ...
    def keep_migrated_config(self, home: AgentHome, /) -> None: ...
    def take_config_back(self, home: AgentHome, schema: int, /) -> RestoreResult: ...
    def prune(self, home: AgentHome, /, *, older_than_s: float) -> int: ...


@dataclass(frozen=True)
class TrialSlot:
    """One release as it runs in a trial.

    Attributes:
        config: Managed configuration: no messengers, no MCP servers.
        environment: Managed environment, without anything of the user's.
    """

    slot: Path
    unit: str
    config: bytes
    environment: bytes


@dataclass(frozen=True)
class Trial:
    """A release with the options of its trial on a copy of the state.

    Attributes:
        home: The agent's home, which is only read.
        port: Port of the tried gateway.
        takes_turns: Whether there is a model for it.
        old: The release that must still run on the changed copy; ``None`` for none.
        migrates: Whether the release first has to migrate the user's configuration to a newer schema.
        config_schema: Number of the schema of configurations that the release reads.
    """

    home: AgentHome
    port: int
    key: str
    takes_turns: bool
    new: TrialSlot
    old: TrialSlot | None
    migrates: bool = False
    config_schema: int = 0


RollbackMethod = Literal["in_place", "copy"]
"""How a machine gets back to the release before: on the state as it is, or on the copy from the moment of the stop."""


@dataclass(frozen=True)
class TrialResult:
    """The outcome of a trial.

    Attributes:
        rollback_method: How to return to the old release.
        why: Reason for the method, or for the result of the trial.
    """

    checks: tuple[Check, ...]
    rollback_method: RollbackMethod = "in_place"
    why: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every check of the trial passed."""
        return all(check.ok for check in self.checks)


class Slots(Protocol):
    """Releases on the machine's disk, and their operations that need a real machine: ``node.release.slots.disk``."""

    def python(self) -> str: ...
    def verify(self, data: bytes, signature: str, signers: str, kind: Kind, /) -> str: ...
    def missing(self, blobs: Iterable[Blob], /) -> list[Blob]: ...
    def download(self, blob: Blob, url: str, until: float, /) -> bool: ...
    def names(self) -> list[str]: ...
    def install(self, lock: Lock, record: bytes, /) -> None: ...
    def remove(self, name: str, /) -> None: ...
    def forget_blobs(self, but: Iterable[Blob], /) -> None: ...
    def point(self, link: str, target: str, /) -> None: ...
    def rename(self, source: Path, target: Path, /) -> bool: ...
    def run_trial(self, trial: Trial, /) -> TrialResult: ...
    def migrate(self, home: AgentHome, slot: Path, unit: str, /) -> None: ...
    def update_node(self, program: Blob, /) -> str: ...


class Gate(Protocol):
    """Access to the agent's API: ``node.system.firewall``."""

    def close(self, port: int, /) -> None: ...
    def open(self) -> None: ...


class InTime(Protocol):
    """Running several things at once, within a limit of time: ``node.system.parallel.in_time``."""

    def __call__(self, calls: Mapping[str, Callable[[], Any]], /, *, deadline_s: float) -> dict[str, Any]: ...


class Volumes(Protocol):
    """The file system that the user's data are on: ``node.system.data_volume``."""

    def observe(self, place: Path, /) -> VolumeState: ...
    def exists(self, file: Path, /) -> bool: ...
    def identify(self, file: Path, /) -> str: ...
    def open_volume(self, file: Path, place: Path, key: bytes, size: int, /) -> None: ...
    def fill_volume(self) -> None: ...
    def close_volume(self, place: Path, /) -> None: ...


class Ssh(Protocol):
    """Host key, address and firewall rules of sshd: ``node.system.sshd``."""

    def make_key(self) -> tuple[bytes, bytes]: ...
    def own_address(self, host: str, /) -> str: ...
    def let_in(self, network: str, seconds: int, /) -> None: ...
    def shut_out(self) -> None: ...


class Keys(Protocol):
    """Making keys and using them: ``node.system.openssl``."""

    def make(self) -> bytes: ...
    def request(self, key: bytes, /) -> bytes: ...
    def fits(self, key: bytes, certificate: bytes, /) -> bool: ...


AskPlatform = Callable[[Credential, bytes, str, str, bytes], bytes]
"""One request to the platform's service, ``node.system.https.ask_platform``: credential, key, method, path, body."""

AskOrders = Callable[[Credential, bytes, str, str, bytes], PlatformAnswer]
"""The same, tried once, with the time that the platform says: ``node.system.https.ask_platform_once``."""
