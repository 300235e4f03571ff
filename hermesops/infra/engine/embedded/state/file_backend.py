"""Pulumi's file backend: a stack's state, its history and copies from before, in a folder or a bucket.

It defines names and formats of files. ``Storage`` stores the files; the content of resources does not matter here.
Source: recordings, semantics §4-§6.
"""

import contextlib
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.infra.engine.embedded.protocol.values import dumps
from hermesops.infra.engine.embedded.state.deployment import forgeries
from hermesops.infra.engine.embedded.state.storage import Folder, Storage, open_storage
from hermesops.model.stack import StackRef

ORGANIZATION = "organization"
ROOT = ".pulumi"

_GZIP_MAGIC = b"\x1f\x8b"
_COMPRESSED = (".gz", ".zst")


class FileBackend:
    """The files of stacks that both engines read and write."""

    def __init__(self, where: str | Path | Storage) -> None:
        self.storage = open_storage(where) if isinstance(where, str | Path) else where
        self._has_meta = False

    @property
    def url(self) -> str:
        """The backend as the CLI's ``PULUMI_BACKEND_URL`` spells it."""
        return self.storage.url

    def state_file(self, ref: StackRef) -> str:
        """Name of the file with a stack's state."""
        return f"{ROOT}/stacks/{ref.project}/{ref.stack}.json"

    def lock_folder(self, ref: StackRef) -> Folder:
        """The folder of a stack's locks."""
        return Folder(self.storage, f"{ROOT}/locks/{ORGANIZATION}/{ref.project}/{ref.stack}")

    def backups(self, ref: StackRef) -> Folder:
        """The folder of copies of a stack's state, ``<stack>.<nanoseconds>.json`` each."""
        return Folder(self.storage, f"{ROOT}/backups/{ref.project}/{ref.stack}")

    def stacks(self, project: str) -> list[StackRef]:
        """List the stacks of a project by their files; reads none of them."""
        files = Folder(self.storage, f"{ROOT}/stacks/{project}").files(".json")
        return [StackRef(project, file.rpartition("/")[2].removesuffix(".json")) for file in files]

    def existing(self, ref: StackRef) -> dict[str, Any]:
        """As ``read``, of a stack that has to be there.

        Raises:
            UsageError: There is no such stack.
        """
        latest = self.read(ref)
        if latest is None:
            raise UsageError(
                f"there is no stack {ref.stack} of project {ref.project} in {self.url}",
                hint=Hint(
                    "nothing was created in it yet, or the stack was removed;", ("stack", "up", ref.stack), "makes it"
                ),
            )
        return latest

    def read(self, ref: StackRef) -> dict[str, Any] | None:
        """Read a stack's ``checkpoint.latest``; None when there is no such stack, {} when it never had a state.

        Raises:
            RefusedError: The file is damaged, is another stack's, or of a format that is not version 3.
        """
        name = self.state_file(ref)
        content = self.storage.read(name)
        if content is None:
            self._refuse_compressed(ref)
            return None
        return self.parsed(ref, name, content)

    def parsed(self, ref: StackRef, name: str, content: bytes) -> dict[str, Any]:
        """``checkpoint.latest`` of a file's content.

        Raises:
            RefusedError: As ``read``.
        """
        if content.startswith(_GZIP_MAGIC):
            raise self.damaged(ref, "it is compressed, which only the CLI reads, by PULUMI_DIY_BACKEND_GZIP", name)
        try:
            document = json.loads(content)
            version, checkpoint = document["version"], document["checkpoint"]
            latest = checkpoint.get("latest") or {}
            owner = checkpoint.get("stack") or ""
            if version not in {0, 3}:
                raise RefusedError(
                    f"{self.storage.at(name)}: the state has version {version}; this engine reads version 3",
                    hint=Hint("run a `pulumi up` of a newer CLI on it, or", self._earlier_version(ref)),
                )
            wrong = forgeries(ref, latest)
            if owner not in {"", ref.stack, f"{ORGANIZATION}/{ref.project}/{ref.stack}"}:
                wrong.insert(0, f"it is of {owner}")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise self.damaged(ref, f"no state in it: {error!r}", name) from error
        if wrong:
            raise self.damaged(ref, "; ".join(wrong), name)
        return dict(latest)

    def damaged(self, ref: StackRef, why: str, name: str = "") -> RefusedError:
        """The error for a state file that cannot be used; its hint says where the last good one is."""
        where = self.storage.at(name or self.state_file(ref))
        return RefusedError(
            f"{where}: the state is damaged ({why}); it was left as it is", hint=self._earlier_version(ref)
        )

    def write(self, ref: StackRef, latest: Mapping[str, Any]) -> None:
        """Replace a stack's state; the replaced state stays beside it as ``.bak``.

        When this returns the new content cannot be lost any more.
        """
        checkpoint = {"stack": f"{ORGANIZATION}/{ref.project}/{ref.stack}", "latest": latest}
        name = self.state_file(ref)
        self._meta()
        self.storage.keep(name, f"{name}.bak")
        self.storage.write(name, dumps({"version": 3, "checkpoint": checkpoint}).encode())

    def copy_before(self, ref: StackRef) -> None:
        """Keep a copy of the state before a change, damaged or not, unless the newest copy is the same.

        A finished operation leaves a copy; an interrupted one and an edit by hand do not.
        """
        content = self.storage.read(self.state_file(ref))
        if content is None or b'"latest"' not in content:
            return
        copies = self.backups(ref).files(".json")
        if not copies or self.storage.read(copies[-1]) != content:
            self.storage.write(self._backup(ref, time.time_ns()), content)

    def record(self, ref: StackRef, entry: Mapping[str, Any]) -> None:
        """Record a finished operation in the history with the state as it is now, and keep a copy of that state."""
        stamp = time.time_ns()
        history = f"{self.history_folder(ref).name}/{ref.stack}-{stamp}"
        state = self.storage.read(self.state_file(ref)) or b""
        self.storage.write(f"{history}.history.json", json.dumps(entry, indent=4).encode())
        self.storage.write(f"{history}.checkpoint.json", state)
        self.storage.write(self._backup(ref, stamp), state)

    def history_folder(self, ref: StackRef) -> Folder:
        """The folder of records of finished operations, ``<stack>-<nanoseconds>.history.json`` each."""
        return Folder(self.storage, f"{ROOT}/history/{ref.project}/{ref.stack}")

    def history(self, ref: StackRef) -> list[dict[str, Any]]:
        """Read the records of a stack's finished operations, newest first; damaged ones are left out."""
        records = []
        for file in reversed(self.history_folder(ref).files(".history.json")):
            with contextlib.suppress(ValueError, RecursionError):
                records.append(json.loads(self.storage.read(file) or b""))
        return records

    def _backup(self, ref: StackRef, stamp: int) -> str:
        return f"{self.backups(ref).name}/{ref.stack}.{stamp}.json"

    def _earlier_version(self, ref: StackRef) -> Hint:
        where = self.storage.at(self.backups(ref).name)
        return Hint(
            ("stack", "rollback-state", ref.stack, "--list"), f"shows the good copies in {where}, and puts one back"
        )

    def _refuse_compressed(self, ref: StackRef) -> None:
        """Refuse a stack with a compressed state of the CLI: a second state beside it would make two stacks of one."""
        file = self.state_file(ref)
        for name in (file + ending for ending in _COMPRESSED):
            if self.storage.read(name) is not None:
                raise RefusedError(
                    f"{self.storage.at(name)}: the state is compressed, which only the CLI reads",
                    hint="run one `pulumi up` of the CLI without PULUMI_DIY_BACKEND_GZIP, or set pulumi.engine to cli",
                )

    def _meta(self) -> None:
        meta = f"{ROOT}/meta.yaml"
        if not self._has_meta and self.storage.read(meta) is None:
            self.storage.write(meta, b"version: 1\n")
        self._has_meta = True


def ended_now(
    kind: str, *, started: int, message: str = "", failed: bool = False, changes: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """The history's record of an operation that ends now, as the CLI writes it; ``started`` is Unix time."""
    return {
        "kind": kind,
        "startTime": started,
        "message": message,
        "environment": {},
        "config": {},
        "version": 0,
        "result": "failed" if failed else "succeeded",
        "endTime": int(time.time()),
        "resourceChanges": dict(changes or {}),
    }
