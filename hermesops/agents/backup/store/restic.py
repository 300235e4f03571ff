"""restic on this computer, with the platform's credential, which has more rights than a machine's.

Secrets reach it in its environment. It keeps nothing here.
Source: restic 0.14 (Debian 12).
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from hermesops.agents.backup.store.repository import Repository
from hermesops.errors import BrokenInvariantError, HermesError, Hint, RefusedError, UnavailableError
from hermesops.model.recovery.backup import Credential
from hermesops.wire import strict_json
from hermesops.wire.state.restic_reason import reason_in

_RUN_S = 1800.0
_LARGEST = 16 << 20
"""Most bytes of restic's output: some 50,000 snapshots. A machine may add any number."""

_PIECE = 1 << 16
_TAKE_BACK = Hint(("job", "run", "recovery-records"), "restores the password from its recovery record")

_STATE = "/state.tar"
"""Name of the state in a snapshot, as hermes-node writes it."""


@dataclass(frozen=True)
class Snapshot:
    """One in a repository.

    Attributes:
        id: In full.
    """

    id: str
    at: datetime


class Restic:
    """Runs restic.

    Args:
        environ: HOME, PATH, and variables of proxies and authorities.
        ca_file: Authorities that may sign the object store's certificate; ``None`` for those of the distribution.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        credential: Callable[[], Awaitable[Credential]],
        *,
        ca_file: Path | None = None,
    ) -> None:
        self._environ = environ
        self._trust = ("--cacert", str(ca_file)) if ca_file else ()
        self._credential = credential

    async def begin(self, repository: Repository, password: str) -> None:
        """Make a repository where there is none."""
        code, _, stderr = await self._run(repository, password, "cat", "config", "--no-lock")
        if code == 0:
            return
        code, _, stderr = await self._run(repository, password, "init")
        if code and "already" not in stderr:
            raise failure_of(stderr)

    async def snapshots(self, repository: Repository, password: str) -> list[Snapshot]:
        """List the snapshots of a repository, oldest first.

        Raises:
            UnavailableError: The object store does not answer, or restic lists something else.
            RefusedError: restic refuses, or lists too much.
        """
        return snapshots_in(await self._output(repository, password, "snapshots", "--json", "--no-lock"))

    async def check(self, repository: Repository, password: str) -> None:
        """Check that a repository is undamaged.

        Raises:
            RefusedError: It is damaged; the message says where.
        """
        await self._output(repository, password, "check")

    async def forget(self, repository: Repository, password: str, ids: Sequence[str]) -> None:
        """Delete snapshots, and the data that no other snapshot has."""
        await self._output(
            repository, password, "unlock"
        )  # locks that killed processes left; restic keeps those of running ones
        await self._output(repository, password, "forget", "--prune", *ids)

    @asynccontextmanager
    async def dumping(
        self, repository: Repository, password: str, snapshot: str, target: int
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """A running restic that writes a snapshot's state to a descriptor."""
        words = ("dump", "--no-lock", snapshot, _STATE)
        process = await self._start(repository, password, words, stdout=target)
        try:
            yield process
        finally:
            await _end(process)

    async def _output(self, repository: Repository, password: str, *words: str) -> str:
        code, out, stderr = await self._run(repository, password, *words)
        if code:
            raise failure_of(stderr)
        return out

    async def _run(self, repository: Repository, password: str, *words: str) -> tuple[int, str, str]:
        process = await self._start(repository, password, words, stdout=asyncio.subprocess.PIPE)
        try:
            async with asyncio.timeout(_RUN_S):
                out, stderr = await asyncio.gather(
                    _read_all(process, process.stdout), _read_all(process, process.stderr)
                )
                await process.wait()
        except TimeoutError as error:
            raise UnavailableError(f"restic {words[0]} did not finish within {_RUN_S:g} s") from error
        finally:
            await _end(process)
        if max(len(out), len(stderr)) > _LARGEST:
            raise RefusedError(
                f"restic lists more than {_LARGEST} bytes for {repository.prefix}",
                hint="its machine created too many snapshots",
            )
        return process.returncode or 0, out.decode(errors="replace"), stderr.decode(errors="replace")

    async def _start(
        self, repository: Repository, password: str, words: Sequence[str], *, stdout: int
    ) -> asyncio.subprocess.Process:
        program = shutil.which("restic", path=self._environ.get("PATH"))
        if program is None:
            raise RefusedError("this computer has no restic", hint="apt-get install restic")
        credential = await self._credential()
        environment = {
            **self._environ,
            "RESTIC_REPOSITORY": repository.url,
            "RESTIC_PASSWORD": password,
            "AWS_ACCESS_KEY_ID": credential.access_key,
            "AWS_SECRET_ACCESS_KEY": credential.secret_key,
            "AWS_SESSION_TOKEN": credential.session_token,
            "AWS_DEFAULT_REGION": repository.bucket.region,
        }
        return await asyncio.create_subprocess_exec(
            program,
            "--no-cache",
            "--quiet",
            *self._trust,
            *words,
            env={name: value for name, value in environment.items() if value},
            cwd="/",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=asyncio.subprocess.PIPE,
        )


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        _kill(process)
        # What it wrote is read to its end: asyncio waits for that before it says that a process has ended.
        await process.communicate()


def _kill(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


def failure_of(stderr: str) -> HermesError:
    """Turn the text that restic wrote on stderr into an error."""
    reason = reason_in(stderr)
    if "wrong password" in stderr:
        return BrokenInvariantError(
            "the registry's password does not open the repository",
            hint=_TAKE_BACK,
        )
    if any(word in stderr for word in ("dial tcp", "connection refused", "timeout", "internal error", "EOF")):
        return UnavailableError(
            f"the object store does not answer: restic: {reason}", hint="run the same command again"
        )
    return RefusedError(f"restic: {reason}")


async def _read_all(process: asyncio.subprocess.Process, stream: asyncio.StreamReader | None) -> bytes:
    """Everything that a process writes; one that writes more than the limit is killed."""
    output = bytearray()
    while stream and (piece := await stream.read(_PIECE)):
        if len(output) > _LARGEST:
            _kill(process)
        else:
            output += piece
    return bytes(output)


def snapshots_in(out: str) -> list[Snapshot]:
    """The snapshots that restic listed, oldest first; machines write into the repository that it reads.

    Raises:
        UnavailableError: It wrote something else.
    """
    try:
        parsed = strict_json.parse(out, largest=_LARGEST)
        listed = _list(parsed if parsed is not None else [])
        read = [Snapshot(_text(row["id"]), datetime.fromisoformat(_short(_text(row["time"])))) for row in listed]
        return sorted(
            read, key=lambda snapshot: snapshot.at
        )  # a time without a zone is not to be compared with one that has it
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UnavailableError(
            f"unexpected list of snapshots from restic ({type(error).__name__})",
            hint=Hint(("doctor",), "shows the installed restic"),
        ) from error


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _short(timestamp: str) -> str:
    """Cut nanoseconds, which restic writes and Python does not read."""
    whole, dot, rest = timestamp.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    return f"{whole}{dot}{digits[:6].ljust(6, '0')}{rest[len(digits) :]}" if dot else timestamp
