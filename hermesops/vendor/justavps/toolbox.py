"""The toolbox: commands and files on a machine, through the API and the vendor's daemon there, as root."""

import base64
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import field_validator

from hermesops.vendor.justavps.errors import (
    CommandTimedOutError,
    LostChangeError,
    NotAllowedError,
    NotFoundError,
    scrubbed,
)
from hermesops.vendor.justavps.sse import ServerSentEvent, events_of
from hermesops.vendor.justavps.transport import Call, Transport
from hermesops.vendor.justavps.wire import Wire
from hermesops.wire import strict_json

_CHUNK = 1 << 20
_BEYOND_S = 30.0
"""Seconds that we wait for the answer beyond the command's own limit."""

_FILE_S = 120.0
"""Seconds of silence after which a transfer counts as lost; a large file may be written to a slow disk."""

_TRANSFER_S = 3600.0
"""Seconds for a whole transfer from or into a file: 80 GB at 22 MB a second."""

_SLOWEST = 1 << 20
"""Bytes a second below which a transfer from or into memory counts as lost, beyond the first ``_FILE_S`` seconds."""

_LARGEST_OUTPUT = 48 << 20
"""Bytes of an answer with both outputs of a command, of which the daemon keeps 16 MiB each, in JSON."""

_LARGEST_IN_MEMORY = 256 << 20
"""Bytes of a file that is read into memory."""

_LARGEST_FILE = 100 << 30
"""Bytes of a file that is read into another, or of a stream: more than the largest data volume holds."""


@dataclass(frozen=True)
class Execution:
    """A command to run.

    Attributes:
        command: For ``/bin/sh -c``, which is dash: no ``pipefail``.
        timeout_s: Whole seconds after which the machine kills it.
    """

    command: str = field(repr=False)
    timeout_s: int = 60
    user: str = "root"
    cwd: str = ""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    def to_wire(self) -> dict[str, object]:
        """Return the JSON body of ``process/execute``."""
        body: dict[str, object] = {"command": self.command, "timeout": self.timeout_s, "user": self.user}
        if self.cwd:
            body["cwd"] = self.cwd
        if self.env:
            body["env"] = dict(self.env)
        return body


class ExecResult(Wire):
    """A command that ended.

    Attributes:
        stdout: Bytes that are not UTF-8 arrive as U+FFFD: use files for those.
        truncated: Whether the daemon dropped output; ours does after 16 MiB a stream.
    """

    exit_code: int
    stdout: str = ""
    stderr: str = ""
    truncated: bool = False

    @field_validator("stdout", "stderr", mode="before")
    @classmethod
    def _null_is_empty(cls, value: object) -> object:
        return "" if value is None else value


@dataclass(frozen=True)
class OutputEvent:
    """Some output of a command that runs on."""

    stream: Literal["stdout", "stderr"]
    data: bytes


@dataclass(frozen=True)
class ExitEvent:
    """Exit code of a command, after its last output."""

    exit_code: int


class Toolbox:
    """The toolbox calls of one account's machines."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def execute(self, machine_id: str, execution: Execution) -> ExecResult:
        """Run a command to its end. Not repeated when the answer is lost.

        Raises:
            CommandTimedOutError: It ran into its limit and was killed.
            LostChangeError: No answer: it may have run, and may still be running.
        """
        call = replace(_post(machine_id, "process/execute", execution), largest=_LARGEST_OUTPUT)
        return await self._transport.ask_for(call, ExecResult)

    async def stream(self, machine_id: str, execution: Execution) -> AsyncIterator[OutputEvent | ExitEvent]:
        """Run a command and yield its output as it comes; the last event is its exit.

        Raises:
            LostChangeError: The stream ended without an exit code.
        """
        call = replace(_post(machine_id, "process/execute/stream", execution), largest=_LARGEST_FILE)
        async with self._transport.opened(call) as answer:
            async for event in events_of(answer.lines()):
                parsed = told_in(call, event)
                if parsed is not None:
                    yield parsed
                if isinstance(parsed, ExitEvent):
                    return
        raise LostChangeError(call.shown, "the stream ended without an exit code")

    async def upload(
        self, machine_id: str, path: str, content: bytes | Path | AsyncIterable[bytes], *, mode: int = 0o644
    ) -> None:
        """Write a file on the machine, replacing one that is there; parents are made.

        ``path`` is absolute. A ``Path`` and an iterable are streamed and need no memory.
        """
        body = _chunks(content) if isinstance(content, Path) else content
        query = {"path": path, "mode": f"{mode:o}", "overwrite": "true"}
        await self._transport.ask(
            Call(
                "POST",
                _path(machine_id, "files/upload"),
                query=query,
                content=body,
                read_timeout_s=_FILE_S,
                total_s=_time_for(len(content)) if isinstance(content, bytes) else _TRANSFER_S,
            )
        )

    async def download(self, machine_id: str, path: str) -> bytes:
        """The content of a file; ``download_to`` for one that may be large."""
        total_s = _time_for(_LARGEST_IN_MEMORY)
        return await self._transport.ask(_download(machine_id, path, largest=_LARGEST_IN_MEMORY, total_s=total_s))

    async def download_to(self, machine_id: str, path: str, target: Path) -> None:
        """Stream a file of the machine into ``target``, which appears only when it is complete."""
        partial = target.with_name(f".{target.name}.partial")
        call = _download(machine_id, path, largest=_LARGEST_FILE, total_s=_TRANSFER_S)
        try:
            async with self._transport.opened(call) as answer:
                with partial.open("wb") as file:
                    async for chunk in answer.pieces():
                        file.write(chunk)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    async def delete(self, machine_id: str, path: str, *, recursive: bool = False) -> None:
        """Remove a file or folder. One that is gone already is success.

        Raises:
            NotAllowedError: A folder that is not empty, without ``recursive``.
            ForbiddenError: A protected path.
        """
        query = {"path": path, "recursive": str(recursive).lower()}
        call = Call("DELETE", _path(machine_id, "files"), query=query)
        try:
            await self._transport.ask(call)
        except NotFoundError as missing:
            if not missing.code:
                raise


def _path(machine_id: str, verb: str) -> str:
    return f"/machines/{machine_id}/toolbox/{verb}"


def _download(machine_id: str, path: str, *, largest: int, total_s: float) -> Call:
    where, query = _path(machine_id, "files/download"), {"path": path}
    return Call("GET", where, query=query, read_timeout_s=_FILE_S, total_s=total_s, largest=largest, changes=False)


def _time_for(size: int) -> float:
    return _FILE_S + size / _SLOWEST


def _post(machine_id: str, verb: str, execution: Execution) -> Call:
    wait = execution.timeout_s + _BEYOND_S
    return Call("POST", _path(machine_id, verb), body=execution.to_wire(), read_timeout_s=wait)


async def _chunks(path: Path) -> AsyncIterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def told_in(call: Call, event: ServerSentEvent) -> OutputEvent | ExitEvent | None:
    """Parse one event. Only "the last one carries the exit code" is documented, so several spellings are read."""
    try:
        content = strict_json.parse(event.data) if event.data else {}
    except strict_json.MalformedJSONError:
        content = event.data
    if not isinstance(content, dict):
        content = {"data": content}
    kind = event.event if event.event != "message" else str(content.get("type") or content.get("stream") or "")
    exit_code = content.get("exit_code", content.get("code"))
    if isinstance(exit_code, int) and kind not in {"stdout", "stderr"}:
        return ExitEvent(exit_code)
    text = content.get("data", content.get("text", content.get("output")))
    if kind in {"stdout", "stderr"} and isinstance(text, str):
        return OutputEvent("stderr" if kind == "stderr" else "stdout", _decoded(text))
    if kind == "timeout" or (kind == "error" and content.get("code") == "timeout"):
        raise CommandTimedOutError(call.shown, "the command reached its time limit", status=408)
    if kind == "error":
        message = content.get("error") or content.get("message") or text
        code = scrubbed(str(content.get("code", "")))
        raise NotAllowedError(call.shown, scrubbed(str(message)), status=400, code=code)
    return None


def _decoded(text: str) -> bytes:
    """Decode output to bytes: from base64, as the daemon sends it; anything else is taken as text."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        return text.encode()
