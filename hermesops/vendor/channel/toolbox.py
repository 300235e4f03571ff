"""A channel through the vendor's toolbox: works wherever the API does, without a port or an SSH key."""

import asyncio
import base64
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from math import ceil
from pathlib import Path
from uuid import uuid4

from hermesops.errors import HermesError
from hermesops.vendor.channel.detached import DetachedCommand, Pace
from hermesops.vendor.channel.detached_scripts import script_command
from hermesops.vendor.channel.errors import NoSuchFileError, translated
from hermesops.vendor.channel.interface import Completed, Exit, Output
from hermesops.vendor.justavps import Client, Execution, OutputEvent

_REPLACED = "\N{REPLACEMENT CHARACTER}"
_INLINE = 1 << 20
"""Bytes of output that a binary run returns in the same round trip."""

_STDIN_FOLDER = "/run"
_SPOOL_FOLDER = "/var/tmp"  # noqa: S108 - the folder made there has an unguessable name and mode 0700

# Before a command with input. Only root can read the file, and it is deleted before the command begins.
_TAKE_STDIN = "exec 0<{file} && rm -f {file} || exit 126\n"

# After that, for another user. setpriv, not su: no PAM session, no login shell.
_AS_USER = """\
HOME=$(getent passwd {user} | cut -d: -f6) && group=$(id -g {user}) || exit 126
export HOME USER={user} LOGNAME={user}
exec setpriv --reuid {user} --regid "$group" --init-groups sh -c {command}
"""

# $1 folder for the output, $2 command, $3 limit. Prints the exit code and, where they fit, both streams in base64; else
# the folder stays.
BINARY = """
umask 077; mkdir "$1" || exit 126
sh -c "$2" >"$1/out" 2>"$1/err"; echo "$?"
if [ "$(cat "$1/out" "$1/err" | wc -c)" -le "$3" ]; then
  echo inline; base64 -w0 "$1/out"; echo; base64 -w0 "$1/err"; echo; rm -rf "$1"
fi
"""


class ToolboxChannel:
    """The channel to one machine through its vendor's toolbox.

    The caller closes the client.
    """

    def __init__(self, client: Client, machine_id: str, *, pace: Pace | None = None) -> None:
        self._toolbox = client.toolbox
        self._id = machine_id
        self._pace = pace or Pace()

    @property
    def machine_id(self) -> str:
        """The vendor's id of the machine."""
        return self._id

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
        """See ``Channel.run``. One round trip; two with ``stdin``; more for long commands, or megabytes of output."""
        if stdin is not None:
            return await self._run_with(stdin, command, timeout_s=timeout_s, user=user, env=env, cwd=cwd, binary=binary)
        if timeout_s > self._pace.direct_s:
            detached = DetachedCommand(self._toolbox, self._id, self._pace)
            return await detached.run(_as_user(user, command), limit_s=timeout_s, cwd=cwd or "", env=env or {})
        execution = Execution(command, timeout_s=ceil(timeout_s), user=user, cwd=cwd or "", env=env or {})
        if binary:
            return await self._run_binary(execution)
        with translated(self._id, "running a command"):
            result = await self._toolbox.execute(self._id, execution)
        exact = not result.truncated and _REPLACED not in result.stdout and _REPLACED not in result.stderr
        return Completed(result.exit_code, result.stdout.encode(), result.stderr.encode(), exact=exact)

    async def _run_with(
        self,
        stdin: bytes,
        command: str,
        *,
        timeout_s: float,
        user: str,
        env: Mapping[str, str] | None,
        cwd: str | None,
        binary: bool,
    ) -> Completed:
        file = f"{_STDIN_FOLDER}/hermesops-{uuid4().hex}.stdin"
        with translated(self._id, "sending a command its input"):
            await self._toolbox.upload(self._id, file, stdin, mode=0o600)
        command = _TAKE_STDIN.format(file=file) + _as_user(user, command)
        try:
            return await self.run(command, timeout_s=timeout_s, env=env, cwd=cwd, binary=binary)
        except BaseException:
            # Also when cancelled: the upload may be secret, and the command may never have begun.
            with suppress(HermesError):
                await asyncio.shield(self.delete(file))
            raise

    async def _run_binary(self, execution: Execution) -> Completed:
        folder = f"{_SPOOL_FOLDER}/hermesops-output-{uuid4().hex}"
        wrapped = Execution(
            script_command(BINARY, folder, execution.command, str(_INLINE)),
            timeout_s=execution.timeout_s,
            user=execution.user,
            cwd=execution.cwd,
            env=execution.env,
        )
        try:
            with translated(self._id, "running a command"):
                result = await self._toolbox.execute(self._id, wrapped)
            code, *streams = result.stdout.split("\n")
            if not code.isdigit():
                return Completed(result.exit_code, result.stdout.encode(), result.stderr.encode())
            if streams[0] == "inline":
                out, err = (base64.b64decode(stream) for stream in streams[1:3])
                return Completed(int(code), out, err)
            out, err = await self.get(f"{folder}/out"), await self.get(f"{folder}/err")
        except BaseException:
            await asyncio.shield(self._forget(folder))
            raise
        await self._forget(folder)
        return Completed(int(code), out, err)

    async def _forget(self, folder: str) -> None:
        with suppress(HermesError), translated(self._id, "removing output"):
            await self._toolbox.delete(self._id, folder, recursive=True)

    async def stream(
        self, command: str, *, timeout_s: float = 60, user: str = "root", env: Mapping[str, str] | None = None
    ) -> AsyncIterator[Output | Exit]:
        """Run a command and yield its output as it comes; see ``Channel.stream``."""
        execution = Execution(command, timeout_s=ceil(timeout_s), user=user, env=env or {})
        with translated(self._id, "running a command"):
            async for event in self._toolbox.stream(self._id, execution):
                yield Output(event.stream, event.data) if isinstance(event, OutputEvent) else Exit(event.exit_code)

    async def put(self, path: str, content: bytes | Path, *, mode: int = 0o600) -> None:
        """Write a file on the machine, owned by root; see ``Channel.put``."""
        with translated(self._id, f"writing {path}"):
            await self._toolbox.upload(self._id, path, content, mode=mode)

    async def get(self, path: str) -> bytes:
        """Read a file of the machine; see ``Channel.get``."""
        with translated(self._id, f"reading {path}", missing=NoSuchFileError):
            return await self._toolbox.download(self._id, path)

    async def get_to(self, path: str, target: Path) -> None:
        """Stream a file of the machine into a local one; see ``Channel.get_to``."""
        with translated(self._id, f"reading {path}", missing=NoSuchFileError):
            await self._toolbox.download_to(self._id, path, target)

    async def delete(self, path: str) -> None:
        """Remove a file of the machine; absent is success."""
        with translated(self._id, f"removing {path}"):
            await self._toolbox.delete(self._id, path)


def _as_user(user: str, command: str) -> str:
    if user == "root":
        return command
    return _AS_USER.format(user=shlex.quote(user), command=shlex.quote(command))
