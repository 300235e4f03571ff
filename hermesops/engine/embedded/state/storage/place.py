"""Where whole files are kept by name, as Pulumi's file backend does: a folder or a bucket, same names in both."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from hermesops.engine.embedded.state.storage.folder import FolderPlace
from hermesops.errors import UsageError


class Place(Protocol):
    """Keeps whole files by name; names are relative and use ``/``."""

    @property
    def url(self) -> str:
        """The place as the CLI's ``PULUMI_BACKEND_URL`` spells it."""

    def at(self, name: str) -> str:
        """Where a file is, for people."""

    def make(self) -> None:
        """Make the place itself where that is ours to do."""

    def read(self, name: str, *, at_most: int | None = None) -> bytes | None:
        """The content; None when there is no such file.

        Args:
            name: Which.
            at_most: Bytes of it that are read; None for all.

        Raises:
            UnavailableError: It cannot be read now.
            RefusedError, UsageError: Nor later: no permission, no such bucket.
        """

    def write(self, name: str, content: bytes) -> None:
        """Replace a file whole. When this returns a power cut cannot take it back; until then the old one is there."""

    def keep(self, name: str, also: str) -> None:
        """Give a file's present content a second name that later writes to the first do not touch.

        Does nothing where there is no such file.
        """

    def list(self, folder: str) -> list[str]:
        """Names of the files directly in a folder, in order; none where there is no such folder."""

    def delete(self, name: str) -> None:
        """Remove a file; one that is gone already is success."""

    def link(self, name: str, *, life_s: int) -> str:
        """Where a file can be had by anybody who knows that address; empty where there is no such address.

        Args:
            name: Which; it need not be there.
            life_s: Seconds for which the address leads there.
        """


@dataclass(frozen=True)
class Folder:
    """A folder of a place."""

    place: Place
    name: str

    def files(self, ending: str) -> list[str]:
        """Names of the files in it with that ending, in order."""
        return [file for file in self.place.list(self.name) if file.endswith(ending)]


def open_place(where: str | Path, *, setting: str = "pulumi_backend") -> Place:
    """The place of a folder, or of a backend URL of Pulumi's: ``file://…`` or ``s3://…``. Connects to nothing.

    Args:
        where: Which.
        setting: What says so, for those who have to mend it.

    Raises:
        UsageError: It is of another kind, or says something that is not understood.
    """
    if isinstance(where, Path) or "://" not in where:
        return FolderPlace(Path(where))
    scheme = urlsplit(where).scheme
    if scheme == "file":
        return FolderPlace(Path(where.removeprefix("file://")).expanduser())
    if scheme == "s3":
        from hermesops.engine.embedded.state.storage.bucket import open_bucket  # noqa: PLC0415  loads nothing where none is used

        return open_bucket(where, setting=setting)
    raise UsageError(
        f"files cannot be kept in {scheme}://: a folder or an s3:// bucket can hold it",
        hint=f"set {setting} to a folder or to s3://BUCKET/FOLDER?region=REGION",
    )
