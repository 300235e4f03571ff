"""Copies of a folder's files in a storage."""

from dataclasses import dataclass
from pathlib import Path

from hermesops.infra.engine.embedded.state.storage import Storage


@dataclass(frozen=True)
class FolderCopy:
    """Copies files of a folder into a bucket, those that are not there yet."""

    what: str
    folder: Path
    target: Storage
    below: str = ""

    def run(self) -> int:
        """Copy new and changed files into the target; returns the number of files written."""
        files = [file for file in sorted((self.folder / self.below).rglob("*")) if file.is_file()]
        count = 0
        for file in files:
            name = file.relative_to(self.folder).as_posix()
            content = file.read_bytes()
            if not name.endswith(".new") and self.target.read(name) != content:
                self.target.write(name, content)
                count += 1
        return count
