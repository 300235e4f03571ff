"""The interface of everything that runs commands and moves files on a machine."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol


@dataclass(frozen=True)
class Completed:
    """Exit code and output of a command that ended.

    Attributes:
        exact: True if the output is complete and unchanged. Otherwise bytes that are not UTF-8 became U+FFFD, or its
            end is missing: run again with ``binary``.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    exact: bool = True

    @property
    def text(self) -> str:
        """Standard output as text, without white space around it."""
        return self.stdout.decode(errors="replace").strip()


@dataclass(frozen=True)
class Output:
    """Some output of a running command."""

    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True)
class Exit:
    """Exit code of a command, after its last output."""

    exit_code: int


class Channel(Protocol):
    """A way to one machine, as root. Safe for many tasks at once.

    Every call raises classes of ``hermesops.vendor.channel.errors``: ``MachineUnreachableError`` when nothing was done,
    ``AnswerLostError`` and ``CommandExpiredError`` when it may have been, ``MachineGoneError`` when there is none.
    A command that fails is an answer, not an error.
    """

    @property
    def machine_id(self) -> str:
        """The vendor's id of the machine."""

    async def run(
        self,
        command: str,
        *,
        timeout_s: float = 60,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: bytes | None = None,
        binary: bool = False,
    ) -> Completed:
        """Run a command to its end.

        Args:
            command: For ``/bin/sh``. It is visible in the machine's process list: secrets go through ``stdin``.
            timeout_s: Seconds after which the machine kills it.
            user: The user it runs as.
            env: Added to its environment.
            cwd: Its folder; by default the root user's home.
            stdin: Its standard input; empty by default.
            binary: Transfer output exactly, also when it is not text or very long; costs a few milliseconds.
        """

    def stream(
        self, command: str, *, timeout_s: float = 60, user: str = "root", env: Mapping[str, str] | None = None
    ) -> AsyncIterator[Output | Exit]:
        """Run a command and yield its output as it comes; ``Exit`` is last. Leaving early does not stop the command."""

    async def put(self, path: str, content: bytes | Path, *, mode: int = 0o600) -> None:
        """Write a file, owned by root, on the machine, atomically where the machine can; a ``Path`` is streamed."""

    async def get(self, path: str) -> bytes:
        """Read a file.

        Raises:
            NoSuchFileError: It is not there.
        """

    async def get_to(self, path: str, target: Path) -> None:
        """Stream a file of the machine into one here, which appears only when it is complete."""

    async def delete(self, path: str) -> None:
        """Remove a file; absent is success."""
