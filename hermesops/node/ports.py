"""The ways to see and change a machine, as Protocols: whatever decides reaches the computer through nothing else.

On a real machine they are modules of this package, and simulated machines keep theirs in memory; ``node.machine`` puts
them together.
"""

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TextIO

from hermesops.node.instance.agent.api import Answer
from hermesops.node.instance.identity.credential import Credential
from hermesops.node.release.documents.lock import Blob, Lock
from hermesops.node.release.documents.signers import Kind
from hermesops.node.release.trial.plan import Trial, Tried
from hermesops.node.state.adapter import Copied
from hermesops.node.state.repository import Repository
from hermesops.node.state.snapshots import RestoreResult
from hermesops.node.system.as_user import AgentHome
from hermesops.node.system.data_volume.luks import Room
from hermesops.node.system.files import Access


class Files(Protocol):
    """Reading and writing as root; see ``node.system.files`` for what each promises."""

    def opened_folder(self, path: Path, /) -> AbstractContextManager[int]:
        """A descriptor of a folder."""

    def read(self, path: Path, /) -> bytes | None:
        """The content of a file, or ``None`` when there is none."""

    def take(self, path: Path, /, *, limit: int) -> bytes:
        """Read a file that carries secrets and remove it."""

    def link_target(self, path: Path, /) -> Path | None:
        """What a link points at; ``None`` when there is no link."""

    def exists(self, folder: int, name: str, /) -> bool:
        """Whether anything of that name is in an open folder."""

    def tail(self, folder: int, name: str, /, *, limit: int) -> bytes:
        """The end of a file in a folder of an open folder."""

    def write(self, folder: int, name: str, data: bytes, access: Access, /) -> None:
        """Put a file into an open folder in one step."""

    def differs(self, path: Path, data: bytes, access: Access, /) -> bool:
        """Whether a file holds something else, or other people may use it."""

    def write_if_changed(self, path: Path, data: bytes, access: Access, /) -> bool:
        """Make a file hold ``data``; whether that changed anything."""

    def remove(self, folder: int, name: str, /) -> bool:
        """Remove one name from an open folder; whether it was there."""

    def locked(self, path: Path, /, *, limit_s: float = ...) -> AbstractContextManager[None]:
        """Hold the machine's lock, waited for so many seconds."""


class System(Protocol):
    """Accounts, systemd, the agent's API, time; see ``node.system.systemd``."""

    def account(self, user: str, /) -> Access | None:
        """What a private file of a user's looks like."""

    def systemctl(self, *words: str, check: bool = True) -> str:
        """What systemctl prints."""

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
    ) -> Answer:
        """One request to the agent's API."""

    def connections(self, port: int, /) -> int:
        """How many connections to a port of the machine are open."""

    def now(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since some moment in the past."""

    def sleep(self, seconds: float, /) -> None:
        """Wait."""


class State(Protocol):
    """The ways to the agent's state, none of which runs as root; see ``node.state.adapter``."""

    def look(self, home: AgentHome, /) -> tuple[dict[str, Any], int]:
        """The digest of the agent's state, and the bytes that its home takes."""

    def save(self, home: AgentHome, repository: Repository, access: Access, /) -> Copied:
        """Copy the state into a repository."""

    def fetch(self, home: AgentHome, repository: Repository, access: Access, /) -> Copied:
        """Bring a copy beside the state that is there."""

    def switch(self, home: AgentHome, /) -> None:
        """Put what was fetched in the place of what is there."""

    def settle(self, home: AgentHome, /) -> None:
        """Bring a switch to its end that was cut short."""

    def forget(self, home: AgentHome, /) -> None:
        """Remove what the last switch kept."""

    def export(self, home: AgentHome, out: TextIO, /) -> None:
        """Write everything as lines of JSON."""

    def keep(self, home: AgentHome, name: str, /) -> None:
        """Keep a copy of the databases and the configuration under a name, while no gateway runs."""

    def weigh(self, home: AgentHome, name: str, /) -> RestoreResult:
        """What putting a kept copy back would come to by now."""

    def restore(self, home: AgentHome, name: str, /) -> RestoreResult:
        """Put a kept copy in the place of what is there, which is kept in turn; carry over what was written since."""

    def outdated(self, home: AgentHome, /, *, older_than_s: float) -> int:
        """Remove what was kept for longer than that; how many there were."""


class Slots(Protocol):
    """Releases on the machine's disk, and what only a real machine can do with them: ``node.release.slots.disk``."""

    def python(self) -> str:
        """The machine's Python, as ``3.11``."""

    def verify(self, data: bytes, signature: str, signers: str, kind: Kind, /) -> str:
        """Who signed some bytes as that kind of text."""

    def missing(self, blobs: Iterable[Blob], /) -> list[Blob]:
        """Take in what was uploaded, and say what is not there yet."""

    def download(self, blob: Blob, url: str, until: float, /) -> bool:
        """Get a file from where it is stored, until a moment of ``System.monotonic``; whether that worked."""

    def names(self) -> list[str]:
        """The releases that are installed whole, by id."""

    def install(self, lock: Lock, record: bytes, /) -> None:
        """Have a release's slot be whole, ``release.json`` with that content last."""

    def remove(self, name: str, /) -> None:
        """Remove a slot."""

    def forget_blobs(self, but: Iterable[Blob], /) -> None:
        """Remove files of releases but these."""

    def point(self, link: str, target: str, /) -> None:
        """Have a link beside ``current`` point at a slot, in one step that survives a crash."""

    def rename(self, source: Path, target: Path, /) -> bool:
        """Put one name in the place of another; whether there was one."""

    def exercise(self, trial: Trial, /) -> Tried:
        """Try a release on a private copy of the state."""

    def migrate(self, home: AgentHome, slot: Path, unit: str, /) -> None:
        """Have a release's agent migrate the user's configuration to its schema, under that unit."""

    def update_node(self, program: Blob, /) -> str:
        """Have a release's own hermes-node be the machine's from here on; why not, or nothing."""


class Gate(Protocol):
    """Who may reach the agent's API; see ``node.system.firewall``."""

    def close(self, port: int, /) -> None:
        """Let nobody but hermes-node connect to a port."""

    def open(self) -> None:
        """Let everybody connect again."""


class Volumes(Protocol):
    """The ways to the file system that data are on; see ``node.system.data_volume.luks``."""

    def look(self, place: Path, /) -> Room:
        """What is mounted at a folder."""

    def exists(self, file: Path, /) -> bool:
        """Whether there is an encrypted volume, open or not."""

    def identify(self, file: Path, /) -> str:
        """Its id, or that of one to come."""

    def open_volume(self, file: Path, place: Path, key: bytes, size: int, /) -> None:
        """Mount it, made first where there is none."""

    def fill_volume(self) -> None:
        """Let the file system of an open volume take all of it."""

    def close_volume(self, place: Path, /) -> None:
        """Unmount it and forget its key."""


class Keys(Protocol):
    """Making keys and using them; see ``node.system.openssl``."""

    def make(self) -> bytes:
        """A fresh private key."""

    def request(self, key: bytes, /) -> bytes:
        """A request for a certificate of it."""

    def fits(self, key: bytes, certificate: bytes, /) -> bool:
        """Whether a certificate is of this key."""


class AsksPlatform(Protocol):
    """One question to the platform's service; see ``node.system.platform_client.ask``."""

    def __call__(self, credential: Credential, key: bytes, method: str, path: str, body: bytes = b"", /) -> bytes:
        """What it answers."""
