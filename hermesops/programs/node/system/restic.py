"""restic, run as a user of its own that the agent can neither read nor stop: a repository of states, each one stream.

Secrets reach it in its environment, which only that user and root can read. It keeps nothing on the machine.

Source: restic 0.14 (Debian 12), 0.16 (Ubuntu 24.04), 0.18 (Debian 13).
"""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from hermesops.programs.node.system.as_user import UserProcess, as_user, pump
from hermesops.programs.node.system.files import Access
from hermesops.wire.errors import BadRequestError, NotReadyError, RefusedError
from hermesops.wire.state.restic_reason import KEY_REFUSED, reason_in
from hermesops.wire.strict_json import exactly, listed, matching, object_in, one_line, string

PROGRAM = "/usr/bin/restic"
HOST = "hermes"
"""The host of every snapshot: an instance changes machines, and its copies stay one series."""

FILE = "state.tar"
"""Name of the stream in a snapshot."""

_IN_STORE = "s3:"
_END_S = 300.0
_REACH_S = 5.0
_BLOCK = 1 << 20
_SNAPSHOT_LENGTH = 64

MAX_REPOSITORY_BYTES = 256 * 1024
REPOSITORY_VERSION = 1

_PLACE = re.compile(r"s3:https?://[A-Za-z0-9.\[\]:_-]{1,256}/[A-Za-z0-9._/-]{1,512}|/[A-Za-z0-9._/-]{1,512}")
_SECRET = re.compile(r"[!-~]{1,512}")
_KEY = re.compile(r"[!-~]{0,512}")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/=-]{0,127}")
_SNAPSHOT = re.compile(r"|latest|[0-9a-f]{8,64}")


@dataclass(frozen=True)
class Repository:
    """One instance's repository, as hermes-node receives it; the secrets stay in memory.

    Attributes:
        place: ``s3:http(s)://HOST[:PORT]/BUCKET/PREFIX``, or a folder.
        access_key: Of the object store; empty for a folder.
        ca: Certificate that the object store's own must be signed by, in PEM; empty for those that the machine trusts.
    """

    place: str
    password: str = field(repr=False)
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    tags: tuple[str, ...] = ()
    snapshot: str = ""
    ca: str = field(default="", repr=False)

    @classmethod
    def from_json(cls, data: bytes) -> "Repository":
        """Read an uploaded file.

        Raises:
            BadRequestError: It is malformed; the message names the field, never its value.
        """
        fields = object_in(data, "payload")
        exactly(
            fields,
            "payload",
            required={"version", "repository", "password"},
            optional={"access_key", "secret_key", "tags", "snapshot", "ca"},
        )
        if fields["version"] != REPOSITORY_VERSION:
            raise BadRequestError(f"version: this hermes-node knows {REPOSITORY_VERSION}")
        place = matching(fields["repository"], _PLACE, "repository")
        if ".." in place.split("/"):
            raise BadRequestError("repository: not of the expected form")
        return cls(
            place=place,
            password=matching(fields["password"], _SECRET, "password"),
            access_key=matching(fields.get("access_key", ""), _KEY, "access_key"),
            secret_key=matching(fields.get("secret_key", ""), _KEY, "secret_key"),
            tags=tuple(matching(one_line(tag, "tags"), _TAG, "tags") for tag in listed(fields.get("tags", []), "tags")),
            snapshot=matching(fields.get("snapshot", ""), _SNAPSHOT, "snapshot"),
            ca=string(fields.get("ca", ""), "ca"),
        )


@dataclass(frozen=True)
class Restic:
    """One repository, and the user that restic runs as."""

    repository: Repository
    access: Access

    def ensure(self) -> None:
        """Make the repository in a folder, where there is none.

        In an object store the platform makes it: restic lists the whole bucket first, and a machine may not.

        Raises:
            NotReadyError: It cannot be reached.
        """
        if self.repository.place.startswith(_IN_STORE):
            return
        code, _, message = self._run("init")
        if code and "already" not in message:
            raise self._failure(message)

    @contextmanager
    def saving(self) -> Iterator["Saving"]:
        """A snapshot in the making; ``Saving.end`` completes it."""
        tags = [word for tag in self.repository.tags for word in ("--tag", tag)]
        words = ("backup", "--json", "--stdin", "--stdin-filename", FILE, "--host", HOST, *tags)
        with self._process(words, stdin=subprocess.PIPE) as (process, out, errors):
            yield Saving(self, process, out, errors)

    @contextmanager
    def fetching(self) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
        """Stream a snapshot; yields restic's process and its stderr."""
        snapshot = self.repository.snapshot or "latest"
        words = ("dump", "--no-lock", *(("--host", HOST) if snapshot == "latest" else ()), snapshot, f"/{FILE}")
        with self._process(words, stdout=subprocess.PIPE) as (process, _, errors):
            yield process, errors

    def full_id(self, snapshot: str) -> str:
        """A snapshot's complete id; older restics print its beginning only."""
        if len(snapshot) == _SNAPSHOT_LENGTH:
            return snapshot
        code, out, message = self._run("snapshots", "--json", "--no-lock", snapshot)
        if code:
            raise self._failure(message)
        return str(json.loads(out)[-1]["id"])

    def failure(self, errors: IO[bytes]) -> NotReadyError | RefusedError:
        """The error for restic's end, from its stderr."""
        return self._failure(_text(errors))

    def _failure(self, message: str) -> NotReadyError | RefusedError:
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        if any("wrong password" in line for line in lines):
            return RefusedError("restic: wrong password for the repository")
        if any("no matching ID" in line or "no snapshot found" in line for line in lines):
            return RefusedError(f"restic: the repository has no snapshot {self.repository.snapshot or 'at all'}")
        reason = reason_in(message)
        return (RefusedError if reason.startswith(KEY_REFUSED) else NotReadyError)(f"restic: {reason}")

    def _run(self, *words: str) -> tuple[int, str, str]:
        with self._process(words) as (process, out, errors):
            try:
                code = process.wait(_END_S)
            except subprocess.TimeoutExpired as error:
                raise NotReadyError(f"restic {words[0]}: no end after {_END_S:g} s") from error
            return code, _text(out), _text(errors)

    @contextmanager
    def _process(
        self, words: tuple[str, ...], *, stdin: int = subprocess.DEVNULL, stdout: int | None = None
    ) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
        import tempfile  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

        self._reach()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, self._ca() as ca:
            try:
                process = subprocess.Popen(
                    [*as_user(self.access), PROGRAM, "--no-cache", "--quiet", *ca, *words],
                    stdin=stdin,
                    stdout=out if stdout is None else stdout,
                    stderr=errors,
                    cwd="/",
                    env=self._environment(),
                )
            except OSError as error:
                raise NotReadyError(f"setpriv: {error.strerror}") from error
            try:
                yield process, out, errors
            finally:
                # Killed before its input is closed: the end of the input would make it keep what there is.
                if process.poll() is None:
                    process.kill()
                process.wait()
                for stream in (process.stdin, process.stdout):
                    if stream:
                        stream.close()

    @contextmanager
    def _ca(self) -> Iterator[tuple[str, ...]]:
        if not self.repository.ca:
            yield ()
            return
        import tempfile  # noqa: PLC0415 - as above

        with tempfile.NamedTemporaryFile(prefix="hermes-backup-ca-") as file:
            file.write(self.repository.ca.encode())
            file.flush()
            Path(file.name).chmod(0o644)  # a certificate is no secret
            yield "--cacert", file.name

    def _environment(self) -> dict[str, str]:
        repository = self.repository
        return {
            "PATH": "/usr/bin:/bin",
            "LANG": "C.UTF-8",
            "HOME": "/nonexistent",
            "GOGC": "20",  # restic's own advice where memory is scarce
            "RESTIC_REPOSITORY": repository.place,
            "RESTIC_PASSWORD": repository.password,
            "AWS_ACCESS_KEY_ID": repository.access_key,
            "AWS_SECRET_ACCESS_KEY": repository.secret_key,
        }

    def _reach(self) -> None:
        if not self.repository.place.startswith(_IN_STORE):
            return
        url = urlsplit(self.repository.place.removeprefix(_IN_STORE))
        host, port = url.hostname or "", url.port or (443 if url.scheme == "https" else 80)
        try:
            socket.create_connection((host, port), _REACH_S).close()
        except OSError as error:
            raise NotReadyError(f"the object store {host}:{port} does not answer: {error}") from error


@dataclass(frozen=True)
class Saved:
    """A snapshot that was made.

    Attributes:
        added: Bytes that the repository grew by; before restic 0.17 the new bytes before compression.
    """

    snapshot: str
    added: int


class Saving:
    """Stores a stream as a snapshot; see ``Restic.saving``."""

    def __init__(self, restic: Restic, process: subprocess.Popen[bytes], out: IO[bytes], errors: IO[bytes]) -> None:
        self._restic, self._process, self._out, self._errors = restic, process, out, errors

    def take(self, source: IO[bytes], giver: UserProcess | None = None) -> None:
        """Read a stream to its end, or to the end of the process that writes it.

        Raises:
            NotReadyError: restic ended, or nothing moves any more.
        """
        if self._process.stdin is None:
            raise NotReadyError("restic: takes nothing")
        try:
            pump(source, self._process.stdin, giver=giver)
        except BrokenPipeError:
            self._process.wait(_END_S)
            raise self._restic.failure(self._errors) from None

    def end(self) -> Saved:
        """Complete the snapshot.

        Raises:
            NotReadyError: restic failed.
        """
        if self._process.stdin:
            self._process.stdin.close()
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired as error:
            raise NotReadyError(f"restic: did not end within {_END_S:g} s") from error
        lines = [line for line in _text(self._out).splitlines() if line.startswith("{")]
        summaries = [line for line in map(json.loads, lines) if line.get("message_type") == "summary"]
        if code or not summaries:
            raise self._restic.failure(self._errors)
        summary = summaries[-1]
        added = int(summary.get("data_added_packed", summary.get("data_added", 0)))
        return Saved(self._restic.full_id(str(summary["snapshot_id"])), added)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_BLOCK).decode(errors="replace")
