"""Fetches ahead what the first release of an image is built of, while this computer has a processor to spare."""

from dataclasses import dataclass
from pathlib import Path

from hermesops.base.files.scratch_folder import scratch_folder
from hermesops.base.narration import Reporter
from hermesops.machines.image.packages.download import Pip
from hermesops.machines.release.builder.sqlite import SqliteBuilder


@dataclass(frozen=True)
class Prefetch:
    """Fills this computer's caches, from which a release is then built.

    Attributes:
        python: Fetch the wheels of this one (``3.11``); another Python needs a third of its own at most.
        lock: Locks these wheels.
        scratch: Folder for files of the moment.
    """

    sqlite: SqliteBuilder
    downloads: Pip
    python: str
    lock: Path
    scratch: Path
    report: Reporter

    def run(self) -> None:
        """Build SQLite and fetch the wheels, unless this computer has them; blocks.

        Raises:
            UnavailableError: A registry of packages does not answer.
            RefusedError: A file is another one than its hash says, or this computer has no compiler.
            UsageError: The extra that fetches wheels is missing.
        """
        self.sqlite.prepare(self.report)
        with scratch_folder(self.scratch, "ahead-") as folder:
            self.downloads.wheels(self.lock, folder / "wheels", python=self.python)
