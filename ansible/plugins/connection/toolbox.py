"""Reaches machines through the vendor's toolbox: no SSH, no open port, as root."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio.lowlevel
import structlog
from ansible.errors import AnsibleConnectionFailure, AnsibleError, AnsibleFileNotFound
from ansible.module_utils.common.text.converters import to_bytes, to_text
from ansible.plugins.connection import ConnectionBase, ensure_connect
from ansible.utils.display import Display

from hermesops.base.files.private_file import read_secret
from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.vendor import channel
from hermesops.vendor.justavps import Client

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

DOCUMENTATION = """
name: toolbox
short_description: Reach machines through the toolbox of JustAVPS
description:
    - Runs commands and moves files through the HTTP API of JustAVPS and the vendor's daemon on the machine.
    - Needs neither SSH nor an open port.
author: hermesops
extends_documentation_fragment:
    - connection_pipelining
options:
    machine_id:
        description: The vendor's id of the machine.
        default: inventory_hostname
        type: string
        vars:
            - name: inventory_hostname
            - name: ansible_host
            - name: ansible_toolbox_machine
    remote_user:
        description: Whom commands run as; files are written as root and given to this user.
        default: root
        type: string
        vars:
            - name: ansible_user
        keyword:
            - name: remote_user
    api_url:
        description: Base URL of the API, with C(/api/v1).
        type: string
        required: true
        vars:
            - name: ansible_toolbox_api_url
        env:
            - name: HERMESOPS_API_URL
        ini:
            - section: toolbox_connection
              key: api_url
    api_key_file:
        description: File that holds the API key, and nothing else.
        type: path
        required: true
        vars:
            - name: ansible_toolbox_api_key_file
        env:
            - name: HERMESOPS_API_KEY_FILE
        ini:
            - section: toolbox_connection
              key: api_key_file
    command_timeout:
        description: Seconds a command may take before the machine kills it.
        type: int
        default: 1800
        vars:
            - name: ansible_toolbox_command_timeout
        ini:
            - section: toolbox_connection
              key: command_timeout
    retries:
        description: How often something is tried again, two seconds apart, when it certainly did not reach the machine.
        type: int
        default: 5
        vars:
            - name: ansible_toolbox_retries
        ini:
            - section: toolbox_connection
              key: retries
"""

_RETRY_EVERY_S = 2.0
_LOOK_EVERY_S = 1.0

T = TypeVar("T")
display = Display()

# anyio, which httpx calls, imports its half of asyncio at the first call. Ansible forks a worker for each task, and
# imports this module before: so it is imported once, and not for 50 ms in every worker.
asyncio.run(anyio.lowlevel.checkpoint())

if not structlog.is_configured():
    # A worker's stdout belongs to Ansible, and structlog prints there unless told otherwise.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())


class Connection(ConnectionBase):
    """One machine, for the life of one worker process (Ansible forks one for each task and host)."""

    transport = "toolbox"
    has_pipelining = True
    _connected: bool  # set by Ansible, which has no types

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - the signature is Ansible's
        super().__init__(*args, **kwargs)
        self._parent = 0
        self._loop: asyncio.Runner | None = None
        self._client: Client | None = None
        self._channel: channel.ToolboxChannel | None = None

    def _connect(self) -> Connection:
        if self._connected:
            return self
        key_file = Path(self.get_option("api_key_file"))
        try:
            key = read_secret(key_file, what="API key")
        except HermesError as cause:
            raise AnsibleError(f"{cause.message} ({cause.hint})") from cause
        self._loop = asyncio.Runner()
        self._client = Client(self.get_option("api_url"), key)
        self._channel = channel.ToolboxChannel(self._client, self.get_option("machine_id"))
        self._parent = os.getppid()
        self._connected = True
        return self

    @property
    def _user(self) -> str:
        return str(self.get_option("remote_user") or "root")

    def _do(self, act: Callable[[channel.ToolboxChannel], Awaitable[T]]) -> T:
        """Do one thing on the machine, again where it certainly was not done, and in Ansible's errors."""
        if self._loop is None or self._channel is None:
            raise AnsibleConnectionFailure("not connected")

        async def attempts(machine: channel.ToolboxChannel) -> T:
            for _ in range(int(self.get_option("retries"))):
                try:
                    return await act(machine)
                except channel.MachineUnreachableError as failure:
                    display.vv(f"{failure.message}; trying again", host=machine.machine_id)
                    await pause(_RETRY_EVERY_S)
            return await act(machine)

        try:
            return self._loop.run(self._while_wanted(attempts(self._channel)))
        # Without their causes: Ansible prints a chain of errors as one text, and these say it all.
        except channel.NoSuchFileError as cause:
            raise AnsibleFileNotFound(cause.message) from None
        except (channel.MachineUnreachableError, channel.MachineGoneError, channel.AnswerLostError) as cause:
            raise AnsibleConnectionFailure(cause.message) from None
        except HermesError as cause:
            raise AnsibleError(cause.message) from None

    async def _while_wanted(self, work: Coroutine[Any, Any, T]) -> T:
        """Give up when Ansible's own process is gone: a worker is in a session of its own and would work on unseen."""
        doing = asyncio.ensure_future(work)
        while not doing.done():
            await asyncio.wait({doing}, timeout=_LOOK_EVERY_S)
            if os.getppid() != self._parent:
                doing.cancel()
        return await doing

    @ensure_connect
    def exec_command(self, cmd: str, in_data: bytes | None = None, sudoable: bool = True) -> tuple[int, bytes, bytes]:  # noqa: FBT001, FBT002 - the signature is Ansible's
        """Run a command; ``in_data``, the module when pipelining, becomes its standard input."""
        super().exec_command(cmd, in_data=in_data, sudoable=sudoable)
        display.vvv(f"EXEC {to_text(cmd)}", host=self.get_option("machine_id"))
        done = self._do(
            lambda machine: machine.run(
                to_text(cmd),
                timeout_s=int(self.get_option("command_timeout")),
                user=self._user,
                stdin=in_data or None,
            )
        )
        return done.exit_code, self._without_become_marker(done.stdout, sudoable=sudoable), done.stderr

    def _without_become_marker(self, stdout: bytes, *, sudoable: bool) -> bytes:
        if not (sudoable and self.become and self.become.success):
            return stdout
        before, marker, after = stdout.partition(to_bytes(self.become.success))
        return before + after.removeprefix(b"\n") if marker else stdout

    @ensure_connect
    def put_file(self, in_path: str, out_path: str) -> None:
        """Stream a file to the machine; readable by its owner only until a module says otherwise."""
        super().put_file(in_path, out_path)
        source = Path(in_path)
        if not source.exists():
            raise AnsibleFileNotFound(f"{in_path} does not exist")
        display.vvv(f"PUT {in_path} TO {out_path}", host=self.get_option("machine_id"))
        self._do(lambda machine: machine.put(out_path, source, mode=0o600))
        if self._user != "root":
            owner = f"chown {self._user} {self._shell.quote(out_path)}"
            self._do(lambda machine: machine.run(owner))

    @ensure_connect
    def fetch_file(self, in_path: str, out_path: str) -> None:
        """Stream a file from the machine."""
        super().fetch_file(in_path, out_path)
        display.vvv(f"FETCH {in_path} TO {out_path}", host=self.get_option("machine_id"))
        self._do(lambda machine: machine.get_to(in_path, Path(out_path)))

    def reset(self) -> None:
        """Begin anew; there is nothing on the far side to end."""
        self.close()
        self._connect()

    def close(self) -> None:
        """Close the HTTP connection."""
        if self._loop is not None:
            if self._client is not None:
                self._loop.run(self._client.aclose())
            self._loop.close()
        self._loop = self._client = self._channel = None
        self._connected = False
