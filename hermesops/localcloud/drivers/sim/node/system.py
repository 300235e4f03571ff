"""hermes-node's ports ``Files``, ``Keys``, ``Volumes`` and ``Gate`` on a simulated machine, over its ``Disk``.

Each keeps the guarantees of the real one in ``node.system``.
"""

import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from hermesops.localcloud.drivers.sim.disk import Disk
from hermesops.localcloud.drivers.sim.store import Entry
from hermesops.programs.node.system import parallel
from hermesops.programs.node.system.data_volume import VolumeState, wanted_gb
from hermesops.programs.node.system.files import Access, LogPiece
from hermesops.wire.errors import BadRequestError, NotReadyError
from hermesops.wire.protocol import GB, VARIABLES, Credential

_LIMIT = 1024 * 1024


class SimFiles:
    """Reads and writes one machine's disk as root."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._open: dict[int, str] = {}

    @contextmanager
    def opened_folder(self, path: Path) -> Iterator[int]:
        if not self._disk.is_folder(str(path)):
            raise NotReadyError(f"{path}: {'Not a directory' if self._disk.entry(str(path)) else 'No such file'}")
        descriptor = max(self._open, default=2) + 1
        self._open[descriptor] = str(path)
        try:
            yield descriptor
        finally:
            del self._open[descriptor]

    def read(self, path: Path) -> bytes | None:
        entry = self._disk.entry(str(path))
        if entry is None:
            return None
        if not stat.S_ISREG(entry.mode):
            raise NotReadyError(f"{path}: not a regular file")
        if len(entry.data) > _LIMIT:
            raise NotReadyError(f"{path}: larger than {_LIMIT} bytes")
        return entry.data

    def take(self, path: Path, *, limit: int) -> bytes:
        entry = self._disk.entry(str(path))
        if entry is None:
            raise BadRequestError(f"{path}: No such file or directory")
        if not stat.S_ISDIR(entry.mode):
            self._disk.remove(str(path))
        if not stat.S_ISREG(entry.mode):
            raise BadRequestError(f"{path}: not a regular file")
        if entry.uid or stat.S_IMODE(entry.mode) & 0o077:
            raise BadRequestError(f"{path}: must be root's and closed to others (mode 0600)")
        if len(entry.data) > limit:
            raise BadRequestError(f"{path}: larger than {limit} bytes")
        return entry.data

    def link_target(self, path: Path) -> Path | None:
        entry = self._disk.entry(str(path))
        return Path(entry.data.decode()) if entry and stat.S_ISLNK(entry.mode) else None

    def exists(self, folder: int, name: str) -> bool:
        return self._disk.entry(f"{self._open[folder]}/{name}") is not None

    def tail(self, folder: int, name: str, *, limit: int) -> bytes:
        path = f"{self._open[folder]}/{name}"
        between = path.rpartition("/")[0]
        entry = self._disk.entry(path)
        if not self._disk.is_folder(between) or entry is None or not stat.S_ISREG(entry.mode):
            return b""
        return entry.data[-limit:]

    def read_on(self, folder: int, name: str, *, inode: int, offset: int, limit: int) -> LogPiece | None:
        entry = self._disk.entry(f"{self._open[folder]}/{name}")
        if entry is None or not stat.S_ISREG(entry.mode):
            return None
        begin = offset if inode == 1 and offset <= len(entry.data) else 0  # no file has another number here
        data = entry.data[max(begin, len(entry.data) - limit) :]
        return LogPiece(1, len(entry.data), data)

    def size(self, folder: int, name: str) -> int | None:
        entry = self._disk.entry(f"{self._open[folder]}/{name}")
        return len(entry.data) if entry and stat.S_ISREG(entry.mode) else None

    def write(self, folder: int, name: str, data: bytes, access: Access) -> None:
        self._disk.put(f"{self._open[folder]}/{name}", Entry(stat.S_IFREG | access.mode, access.uid, access.gid, data))

    def differs(self, path: Path, data: bytes, access: Access) -> bool:
        return self._disk.entry(str(path)) != Entry(stat.S_IFREG | access.mode, access.uid, access.gid, data)

    def write_if_changed(self, path: Path, data: bytes, access: Access) -> bool:
        if not self.differs(path, data, access):
            return False
        with self.opened_folder(path.parent) as folder:
            self.write(folder, path.name, data, access)
        return True

    def remove(self, folder: int, name: str) -> bool:
        return self._disk.remove(f"{self._open[folder]}/{name}")

    @contextmanager
    def locked(self, path: Path, *, limit_s: float = 0.0) -> Iterator[None]:
        """See ``node.system.files.locked``; requests of a simulated machine never overlap, so nobody waits."""
        del limit_s
        folder = str(path.parent)
        if not self._disk.is_folder(folder):
            self._disk.put(folder, Entry(stat.S_IFDIR | 0o700, 0, 0, b""))
        yield


class SimKeys:
    """Implements hermes-node's ``Keys`` in Python, without openssl."""

    def make(self) -> bytes:
        return ec.generate_private_key(ec.SECP256R1()).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def request(self, key: bytes) -> bytes:
        private = serialization.load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise NotReadyError("the machine's key is no EC key")
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "machine")])
        request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(private, hashes.SHA256())
        return request.public_bytes(serialization.Encoding.PEM)

    def fits(self, key: bytes, certificate: bytes) -> bool:
        try:
            parsed = x509.load_pem_x509_certificate(certificate)
        except ValueError:
            return False
        return serialization.load_pem_private_key(key, None).public_key() == parsed.public_key()


def no_platform(_credential: Credential, _key: bytes, _method: str, _path: str, _body: bytes = b"") -> NoReturn:
    """Refuse: a simulated machine has no network of its own."""
    raise NotReadyError("a simulated machine reaches no platform")


class SimSsh:
    """The port ``Ssh`` of a simulated machine, which has no sshd."""

    def make_key(self) -> tuple[bytes, bytes]:
        """Refuse: a simulated machine has no sshd."""
        raise NotReadyError("a simulated machine has no sshd")

    def own_address(self, host: str) -> str:
        """Refuse: a simulated machine has no route to a host."""
        raise NotReadyError(f"no route from a simulated machine to {host}")

    def let_in(self, network: str, seconds: int) -> None:
        """Refuse: a simulated machine has no sshd."""
        raise NotReadyError(f"a simulated machine lets in nobody, for {seconds} s or longer, not even {network}")

    def shut_out(self) -> None:
        """Do nothing, as no address was let in."""


def in_time(calls: Mapping[str, Callable[[], Any]], /, *, deadline_s: float) -> dict[str, Any]:
    """Run calls one after the other: a machine's time stands still in between, and its database has one thread."""
    del deadline_s
    return {name: parallel.outcome(call) for name, call in calls.items()}


class SimVolumes:
    """The data volume of one machine: as large as its order says, else as its disk, and always open."""

    def __init__(self, disk: Disk, disk_gib: int) -> None:
        self._disk = disk
        self._disk_gib = disk_gib

    def observe(self, place: Path) -> VolumeState:
        variables = self._disk.entry(VARIABLES)
        size = wanted_gb(variables.data) * GB if variables else 0
        used = sum(len(entry.data) for entry in self._disk.below(str(place)).values())
        return VolumeState(size > 0, is_encrypted=False, size=size or self._disk_gib << 30, used=used)

    def exists(self, file: Path) -> bool:
        """See ``node.system.data_volume.exists``: the world mounts it, as it does for containers."""
        del file
        return False

    def identify(self, file: Path) -> str:
        """Never called, as no volume is encrypted here."""
        return str(file)

    def open_volume(self, file: Path, place: Path, key: bytes, size: int) -> None:
        """Do nothing, as the volume is always open."""

    def fill_volume(self) -> None:
        """See ``node.system.data_volume.fill_volume``; it has its size from its order."""

    def close_volume(self, place: Path) -> None:
        """See ``node.system.data_volume.close_volume``; it goes with the machine."""


class SimGate:
    """The firewall in front of one machine's gateway."""

    FILE = "/run/simulation/closed"
    """Exists while only hermes-node reaches the port that is in it; a boot removes it."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def close(self, port: int) -> None:
        self._disk.put(self.FILE, Entry(stat.S_IFREG | 0o600, 0, 0, str(port).encode()))

    def open(self) -> None:
        self._disk.remove(self.FILE)
