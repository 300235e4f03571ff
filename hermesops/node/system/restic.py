"""restic, run as a user of its own that the agent can neither read nor stop, over one stream: a state as an archive.

Secrets reach it in its environment, which nobody but that user and root can read. It keeps nothing on the machine.

Source: restic 0.14 (Debian 12), 0.16 (Ubuntu 24.04), 0.18 (Debian 13).
"""

import json
import os
import select
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.state.repository import Repository
from hermesops.node.system.as_user import WATCH_EVERY_S, UserProcess, as_user
from hermesops.node.system.files import Access

PROGRAM = "/usr/bin/restic"
HOST = "hermes"
"""What every machine calls itself in a repository: an instance changes machines, and its copies stay one line."""

FILE = "state.tar"
"""Name of the stream in a snapshot."""

_IN_STORE = "s3:"
_TAKEN_S = 120.0
"""Nothing was taken for so long: the object store is gone, and restic would go on trying for a quarter of an hour."""

_GIVEN_S = 900.0
"""Nothing came for so long; a large database is copied before the first byte of it comes."""

_END_S = 300.0
_REACH_S = 5.0
_BLOCK = 1 << 20
_SNAPSHOT_LENGTH = 64


@dataclass(frozen=True)
class Restic:
    """One repository, and who works on it.

    Attributes:
        access: The user that restic runs as.
    """

    repository: Repository
    access: Access

    def ensure(self) -> None:
        """Make the repository in a folder, where there is none.

        In an object store the platform makes it: restic looks at the bucket as a whole first, and a machine may not.

        Raises:
            NotReadyError: It cannot be reached.
        """
        if self.repository.place.startswith(_IN_STORE):
            return
        code, _, said = self._run("init")
        if code and "already" not in said:
            raise self._failure(said)

    @contextmanager
    def saving(self) -> Iterator["Saving"]:
        """A snapshot in the making; without ``Saving.end`` there is none."""
        tags = [word for tag in self.repository.tags for word in ("--tag", tag)]
        words = ("backup", "--json", "--stdin", "--stdin-filename", FILE, "--host", HOST, *tags)
        with self._process(words, stdin=subprocess.PIPE) as (process, out, said):
            yield Saving(self, process, out, said)

    @contextmanager
    def fetching(self) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
        """The stream of a snapshot, and what restic says of it."""
        snapshot = self.repository.snapshot or "latest"
        words = ("dump", "--no-lock", *(("--host", HOST) if snapshot == "latest" else ()), snapshot, f"/{FILE}")
        with self._process(words, stdout=subprocess.PIPE) as (process, _, said):
            yield process, said

    def full_id(self, snapshot: str) -> str:
        """A snapshot's whole id; older restics tell its beginning only."""
        if len(snapshot) == _SNAPSHOT_LENGTH:
            return snapshot
        code, out, said = self._run("snapshots", "--json", "--no-lock", snapshot)
        if code:
            raise self._failure(said)
        return str(json.loads(out)[-1]["id"])

    def failure(self, said: IO[bytes]) -> NotReadyError | RefusedError:
        """Why restic ended, from what it wrote on stderr."""
        return self._failure(_text(said))

    def _failure(self, said: str) -> NotReadyError | RefusedError:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        if any("wrong password" in line for line in lines):
            return RefusedError("restic: the repository is not opened by this password")
        if any("no matching ID" in line or "no snapshot found" in line for line in lines):
            return RefusedError(f"restic: the repository has no snapshot {self.repository.snapshot or 'at all'}")
        return NotReadyError(f"restic: {lines[-1][:400] if lines else 'ended without a word'}")

    def _run(self, *words: str) -> tuple[int, str, str]:
        with self._process(words) as (process, out, said):
            try:
                code = process.wait(_END_S)
            except subprocess.TimeoutExpired as error:
                raise NotReadyError(f"restic {words[0]}: no end after {_END_S:g} s") from error
            return code, _text(out), _text(said)

    @contextmanager
    def _process(
        self, words: tuple[str, ...], *, stdin: int = subprocess.DEVNULL, stdout: int | None = None
    ) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
        self._reach()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as said, self._ca() as ca:
            try:
                process = subprocess.Popen(
                    [*as_user(self.access), PROGRAM, "--no-cache", "--quiet", *ca, *words],
                    stdin=stdin,
                    stdout=out if stdout is None else stdout,
                    stderr=said,
                    cwd="/",
                    env=self._environment(),
                )
            except OSError as error:
                raise NotReadyError(f"setpriv: {error.strerror}") from error
            try:
                yield process, out, said
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
        added: Bytes that the repository grew by; before restic 0.17 those that were new, before they were compressed.
    """

    snapshot: str
    added: int


class Saving:
    """Takes a stream; see ``Restic.saving``."""

    def __init__(self, restic: Restic, process: subprocess.Popen[bytes], out: IO[bytes], said: IO[bytes]) -> None:
        self._restic, self._process, self._out, self._said = restic, process, out, said

    def take(self, source: IO[bytes], giver: UserProcess | None = None) -> None:
        """Read a stream to its end, or to the end of whoever gives it.

        Raises:
            NotReadyError: restic ended, or nothing moves any more.
        """
        if self._process.stdin is None:
            raise NotReadyError("restic: takes nothing")
        try:
            pump(source, self._process.stdin, giver=giver)
        except BrokenPipeError:
            self._process.wait(_END_S)
            raise self._restic.failure(self._said) from None

    def end(self) -> Saved:
        """Have restic keep what it took.

        Raises:
            NotReadyError: It did not.
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
            raise self._restic.failure(self._said)
        told = summaries[-1]
        added = int(told.get("data_added_packed", told.get("data_added", 0)))
        return Saved(self._restic.full_id(str(told["snapshot_id"])), added)


def pump(
    source: IO[bytes],
    target: IO[bytes],
    *,
    giver: UserProcess | None = None,
    taker: UserProcess | None = None,
    taken_s: float = _TAKEN_S,
    given_s: float = _GIVEN_S,
) -> None:
    """Move everything from one pipe to another, until the first ends or its giver does.

    Args:
        source: What is read.
        target: What is written.
        giver: Who writes the first; what it left may keep the pipe open.
        taker: Who reads the second.
        taken_s: Seconds for a piece to be taken.
        given_s: Seconds for a piece to come.

    Raises:
        BrokenPipeError: Nobody reads.
        NotReadyError: Nothing came for ``given_s`` seconds, nothing was taken for ``taken_s``, or a signal has stopped
            one of the two.
    """
    reader, writer = source.fileno(), target.fileno()
    os.set_blocking(writer, False)
    while _comes(reader, giver, given_s):
        data = memoryview(os.read(reader, _BLOCK))
        if not data:
            return
        while data:
            _refuse_untaken(writer, taker, taken_s)
            data = data[os.write(writer, data) :]


def _comes(reader: int, giver: UserProcess | None, given_s: float) -> bool:
    """Wait for something to read; false when nothing can come any more."""
    until = time.monotonic() + given_s
    while (left := until - time.monotonic()) > 0:
        is_over = giver is not None and giver.is_over()
        if select.select([reader], [], [], 0 if is_over else min(left, WATCH_EVERY_S))[0]:
            return True
        if is_over:
            return False
    raise NotReadyError(f"nothing came for {given_s:g} s")


def _refuse_untaken(writer: int, taker: UserProcess | None, taken_s: float) -> None:
    until = time.monotonic() + taken_s
    while (left := until - time.monotonic()) > 0:
        if select.select([], [writer], [], min(left, WATCH_EVERY_S))[1]:
            return
        if taker is not None and taker.is_over():
            raise BrokenPipeError
    raise NotReadyError(f"nothing was taken for {taken_s:g} s")


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(_BLOCK).decode(errors="replace")
