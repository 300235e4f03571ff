"""Pulumi's file backend: a folder with a stack's state, its history and copies from before.

It knows names, folders and how to write a file so that a crash leaves the old one or the new one; it does not
know what a resource is. Source: recordings, semantics §4-§5.
"""

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hermesops.engine.embedded.values import dumps
from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.stack import StackRef

ORGANIZATION = "organization"


class FileBackend:
    """The folder that both engines keep their stacks in.

    Args:
        folder: What the CLI would be given as ``file://folder``; made when missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / ".pulumi"

    def state_file(self, ref: StackRef) -> Path:
        """Where the state of a stack lies."""
        return self.root / "stacks" / ref.project / f"{ref.stack}.json"

    def lock_folder(self, ref: StackRef) -> Path:
        """Where the locks of a stack lie."""
        return self.root / "locks" / ORGANIZATION / ref.project / ref.stack

    def stacks(self, project: str) -> list[StackRef]:
        """List the stacks of a project by their files; reads none of them."""
        return [StackRef(project, file.stem) for file in sorted((self.root / "stacks" / project).glob("*.json"))]

    def existing(self, ref: StackRef) -> dict[str, Any]:
        """As ``read``, of a stack that has to be there.

        Raises:
            UsageError: There is no such stack.
        """
        latest = self.read(ref)
        if latest is None:
            raise UsageError(
                f"there is no stack {ref.stack} of project {ref.project} in {self.root.parent}",
                hint="`hermesops stack list` shows those that exist",
            )
        return latest

    def read(self, ref: StackRef) -> dict[str, Any] | None:
        """Read a stack's ``checkpoint.latest``; None when there is no such stack, {} when it never had a state.

        Raises:
            RefusedError: The file is damaged, or of a format that is not version 3.
        """
        file = self.state_file(ref)
        try:
            document = json.loads(file.read_bytes())
            version = document["version"]
            latest = document["checkpoint"].get("latest") or {}
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnavailableError(f"{file}: the state cannot be read: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self.damaged(ref, str(error)) from error
        if version not in {0, 3} or not isinstance(latest, dict):
            raise RefusedError(
                f"{file}: the state has version {version}; this engine reads version 3",
                hint="run a `pulumi up` of a newer CLI on it, or restore it from the backups folder",
            )
        return latest

    def damaged(self, ref: StackRef, why: str) -> RefusedError:
        """Say that a state file cannot be used and where the last good one is."""
        file = self.state_file(ref)
        copies = sorted((self.root / "backups" / ref.project / ref.stack).glob("*.json"))
        newest = copies[-1] if copies else file.with_suffix(".json.bak")
        return RefusedError(
            f"{file}: the state is damaged ({why}); it was left as it is",
            hint=f"look at {newest}, the last copy, and put it in its place",
        )

    def write(self, ref: StackRef, latest: Mapping[str, Any]) -> None:
        """Replace a stack's state; what it was before stays beside it as ``.bak``.

        When this returns the new content is on the disk, not only in the kernel's memory.
        """
        checkpoint = {"stack": f"{ORGANIZATION}/{ref.project}/{ref.stack}", "latest": latest}
        document = {"version": 3, "checkpoint": checkpoint}
        file = self.state_file(ref)
        self._meta()
        keep = file.with_suffix(".json.bak")
        with _disk(file):
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.exists():
                spare = keep.with_name(keep.name + ".new")
                spare.unlink(missing_ok=True)
                spare.hardlink_to(file)  # the old content keeps a name at every moment
                spare.replace(keep)
            _replace(file, dumps(document), durable=True)

    def record(self, ref: StackRef, entry: Mapping[str, Any]) -> None:
        """Note a finished operation in the history, with the state as it is now, and keep a copy of that state."""
        stamp = time.time_ns()
        history = self.root / "history" / ref.project / ref.stack
        backups = self.root / "backups" / ref.project / ref.stack
        state = self.state_file(ref).read_text()
        for file, text in (
            (history / f"{ref.stack}-{stamp}.history.json", json.dumps(entry, indent=4)),
            (history / f"{ref.stack}-{stamp}.checkpoint.json", state),
            (backups / f"{ref.stack}.{stamp}.json", state),
        ):
            with _disk(file):
                file.parent.mkdir(parents=True, exist_ok=True)
                _replace(file, text, durable=False)

    def _meta(self) -> None:
        meta = self.root / "meta.yaml"
        if not meta.exists():
            with _disk(meta):
                self.root.mkdir(parents=True, exist_ok=True)
                _replace(meta, "version: 1\n", durable=True)


@contextlib.contextmanager
def _disk(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"{file}: cannot be written: {error.strerror}",
            hint="make room or mend the folder's permissions, then run the same command again",
        ) from error


def _replace(file: Path, text: str, *, durable: bool) -> None:
    spare = file.with_name(file.name + ".new")
    descriptor = os.open(spare, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
        if durable:
            out.flush()
            os.fsync(descriptor)
    spare.replace(file)
    if durable:
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
