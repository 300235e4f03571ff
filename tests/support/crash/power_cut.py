"""A recording layer under ``FolderStorage``: what is on the disk for sure, and what a power cut may leave.

The calls of ``os`` are carried out and noted. A file's content is safe once it was synced, a folder's entries once
the folder was. ``aftermaths`` makes every folder that a cut at some moment may leave: with nothing that was not
synced, with all of it, and with all new names but empty contents, as file systems with delayed allocation do.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any


class Luck(Enum):
    """What becomes of that which was not synced."""

    NOTHING = "nothing of it is there"
    NAMES = "names are there, contents are not"
    ALL = "all of it is there"


@dataclass
class Inode:
    """A file; its content as last written and as last synced."""

    content: bytes = b""
    synced: bytes | None = None


@dataclass
class Disk:
    """What two views of one folder hold: entries by path, as they are and as they were last synced."""

    names: dict[str, Inode | None] = field(default_factory=dict)
    synced: dict[str, Inode | None] = field(default_factory=dict)

    def left(self, luck: Luck) -> dict[str, bytes | None]:
        """Files (and folders, as None) after a cut."""
        names = self.synced if luck is Luck.NOTHING else self.names
        return {name: None if inode is None else _left_of(inode, luck) for name, inode in names.items()}


def _left_of(inode: Inode, luck: Luck) -> bytes:
    if luck is Luck.ALL:
        return inode.content
    return inode.synced if inode.synced is not None else b""


class RecordingOs:
    """Stands in for the module ``os`` of ``folder_storage``.

    Args:
        folder: The place's folder; what is outside is not noted.
        forgetful: Calls that are carried out and yet sync nothing: ``file`` or ``folder``. Tests the tests.
    """

    def __init__(self, folder: Path, *, forgetful: str = "") -> None:
        self.folder = folder
        self.forgetful = forgetful
        self.disk = Disk()
        self.timestamps: list[list[dict[str, bytes | None]]] = []
        self._open: dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  whatever os has
        return getattr(os, name)

    def open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        descriptor = os.open(path, flags, mode)
        name = self._name(path)
        self._open[descriptor] = name
        if flags & os.O_TRUNC:
            self.disk.names[name] = Inode()
        self._note()
        return descriptor

    def fdopen(self, descriptor: int, mode: str) -> Any:  # noqa: ANN401  as os.fdopen
        return os.fdopen(descriptor, mode)

    def fsync(self, descriptor: int) -> None:
        os.fsync(descriptor)
        name = self._open[descriptor]
        inode = self.disk.names.get(name)
        if inode is not None:
            inode.content = (self.folder / name).read_bytes()
            self._note()  # written, not yet synced
            if self.forgetful != "file":
                inode.synced = inode.content
        elif self.forgetful != "folder":
            inside = {entry: node for entry, node in self.disk.names.items() if _parent(entry) == name}
            for entry in [entry for entry in self.disk.synced if _parent(entry) == name]:
                del self.disk.synced[entry]
            self.disk.synced |= inside
        self._note()

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def replace(self, source: Path, target: Path) -> None:
        source.replace(target)
        self.disk.names[self._name(target)] = self.disk.names.pop(self._name(source))
        self._note()

    def link(self, source: Path, target: Path) -> None:
        os.link(source, target)
        self.disk.names[self._name(target)] = self.disk.names[self._name(source)]
        self._note()

    def mkdir(self, path: Path) -> None:
        path.mkdir()
        self.disk.names[self._name(path)] = None
        self._note()

    def aftermaths(self, timestamp: int, folder: Path) -> Iterator[Path]:
        """Make what a cut at that moment may leave, one folder each."""
        for number, left in enumerate(self.timestamps[timestamp]):
            place = folder / f"{timestamp}-{number}"
            place.mkdir(parents=True)
            for name, content in sorted(left.items()):
                file = place / name
                if not file.parent.is_dir():
                    continue  # its folder did not last
                if content is None:
                    file.mkdir(exist_ok=True)
                else:
                    file.write_bytes(content)
            yield place

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self.folder)) if path.is_relative_to(self.folder) else ""

    def _note(self) -> None:
        self.timestamps.append([self.disk.left(luck) for luck in Luck])


def _parent(name: str) -> str:
    return str(Path(name).parent)
