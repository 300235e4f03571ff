"""A package index of small wheels, keys that are only names, and a store in a dictionary, to build releases with."""

import hashlib
import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from hermesops.errors import RefusedError, UnavailableError
from hermesops.infra.engine.embedded.state.storage import FolderStorage, Storage
from hermesops.machines.image.packages.download import Pip
from hermesops.machines.release import Releases, requirements
from hermesops.machines.release.blobs import blob_of
from hermesops.machines.release.builder.build import Builder, BuildRequest
from hermesops.machines.release.builder.parts import PACKAGE, Parts, Unit
from hermesops.machines.release.builder.resolver import Resolver
from hermesops.machines.release.builder.sqlite import Files, SqliteBuilder
from hermesops.machines.release.sqlite import files_of
from hermesops.machines.release.trust import StoreMemory, Trust
from tests.support.releases.signer import Remembered
from tests.support.releases.signer_lines import names_in

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
OF_INDEX = ("0.18.2", "0.19.0")
UNIT = Unit(
    "{% if hermes_gateway_watchdog_seconds | int > 0 %}\nType=notify\n{% else %}\nType=simple\n{% endif %}\n",
    {"hermes_gateway_watchdog_seconds": 30},
)


def agent_wheel(version: str, *, schema: int = 33, notifies: bool = True, name: str = PACKAGE) -> bytes:
    """The smallest wheel that says of the agent what releases ask for."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in {
            f"hermes_agent-{version}.dist-info/METADATA": f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n",
            "hermes_cli/config.py": f'DEFAULT_CONFIG = {{\n    "_config_version": {schema},\n}}\n',
            "gateway/config.py": "systemd_watchdog_seconds = 0\n" if notifies else "pass\n",
        }.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return content.getvalue()


def file_of(version: str) -> str:
    """What a wheel of the agent is called."""
    return f"hermes_agent-{version}-py3-none-any.whl"


@dataclass
class Index(Resolver, Pip):
    """Resolves, and downloads what it resolved; ``asked`` says how often it was asked for files."""

    asked: list[str] = field(default_factory=list)
    is_up: bool = True
    resolved: int = 0

    def files(self, python: str) -> dict[str, bytes]:
        """Every wheel for a Python."""
        agents = {file_of(version): agent_wheel(version, notifies=version != OF_INDEX[0]) for version in OF_INDEX}
        tag = f"cp{python.replace('.', '')}"
        return {**agents, f"aiohttp-3.14.1-{tag}-{tag}-manylinux_2_28_x86_64.whl": f"aiohttp for {python}".encode()}

    def resolve(self, wanted: str, python: str, *, wheels: Path | None = None) -> str:
        """As ``release.builder.resolver.Resolver`` does it."""
        self._answer()
        self.resolved += 1
        version = wanted.partition("==")[2]
        offered = {path.name: path.read_bytes() for path in wheels.glob("*.whl")} if wheels else {}
        offered |= self.files(python)
        if file_of(version) not in offered:
            raise RefusedError(f"there is no set of packages for {wanted}")
        chosen = [blob_of(name, data) for name, data in offered.items() if version in name or "aiohttp" in name]
        lines = (requirements.pin_of(blob) for blob in chosen)
        return "".join(f"{pin.name}=={pin.version} \\\n    --hash=sha256:{next(iter(pin.hashes))}\n" for pin in lines)

    def wheels(self, requirements: Path, folder: Path, *, python: str) -> None:
        """As ``image.download.Pip`` does it."""
        self._answer()
        folder.mkdir(exist_ok=True)
        for name, data in self.files(python).items():
            if hashlib.sha256(data).hexdigest() in requirements.read_text():
                self.asked.append(name)
                (folder / name).write_bytes(data)

    def source(self, requirements: Path, folder: Path) -> None:
        """As ``image.download.Pip`` does it."""
        self._answer()
        folder.mkdir(exist_ok=True)
        self.asked.append("source")
        version = requirements.read_text().split()[0].partition("==")[2]
        (folder / f"hermes_agent-{version}.tar.gz").write_text(f"skills of {version}")

    def _answer(self) -> None:
        if not self.is_up:
            raise UnavailableError("the package index does not answer")


@dataclass
class MemoryStore(FolderStorage):
    """Keeps files in a dictionary."""

    url: str = "memory"
    held: dict[str, bytes] = field(default_factory=dict)

    def read(self, name: str, *, at_most: int | None = None) -> bytes | None:
        file = self.held.get(name)
        return file if file is None else file[:at_most]

    def write(self, name: str, content: bytes) -> None:
        self.held[name] = content

    def list(self, folder: str) -> list[str]:
        return sorted(name for name in self.held if name.startswith(f"{folder}/"))

    def link(self, name: str, *, life_s: int) -> str:  # noqa: ARG002 - as in every store
        return ""


@dataclass
class Name:
    """A key that is only a name."""

    name: str

    def sign(self, data: bytes, *, namespace: str) -> str:
        return f"{self.name} {_digest(data, namespace)}"


def check_name(data: bytes, signature: str, *, signers: str, namespace: str) -> str:
    """Whether one of the names on the list has signed."""
    name, _, digest = signature.partition(" ")
    if name not in names_in(signers) or digest != _digest(data, namespace):
        raise RefusedError(f"the signature is by nobody of {names_in(signers)}")
    return name


def _digest(data: bytes, namespace: str) -> str:
    return hashlib.sha256(namespace.encode() + b"\0" + data).hexdigest()


def releases_in(
    store: Storage, name: str = "ada", *, memory: StoreMemory | None = None, vouchers: str = ""
) -> Releases:
    """The releases of a store as the computer of somebody sees them."""
    return Releases(store, Trust(store, check_name, memory or Remembered(), vouchers), Name(name))


def parts(index: Index, folder: Path) -> Parts:
    """What every release is made of here."""
    source = folder / "older.txt"
    source.write_text("hermes-agent==0.19.0 --hash=sha256:0\n")

    def uv(folder: Path) -> bytes:
        assert folder.is_dir()
        index._answer()
        return b"uv"

    site, sqlite = {"hermes-sandbox.pth": b"pth"}, SmallSqlite((), folder, lambda _: b"")
    return Parts("[mcp]", site, UNIT, lambda: b"node", uv, Path.read_bytes, source, sqlite)


class SmallSqlite(SqliteBuilder):
    """Has a library of a few bytes."""

    def files(self, *_: object) -> Files:
        return files_of("3.53.4", b"library", b"description")


def builder_of(releases: Releases, index: Index, scratch: Path) -> Builder:
    """What builds releases there."""
    return Builder(releases, index, index, parts(index, scratch), scratch, lambda _: None)


def order(agent: str = "0.19.0", pythons: Sequence[str] = ("3.11",)) -> BuildRequest:
    """A release of an agent that the index has."""
    return BuildRequest(agent=agent, pythons=tuple(pythons))
