"""SSH to a machine with a known host key, as root: one command, or a terminal. Nothing is forwarded.

For emergencies: everything else goes by the toolbox. paramiko takes long to import: import this module in the one
command that needs it.
"""

import base64
import logging
import os
import select
import signal
import socket
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import paramiko
from paramiko.pkey import UnknownKeyType

from hermesops.errors import Hint, Parameter, RefusedError, UnavailableError

_CONNECT_S = 10.0
_HANDSHAKE_S = 30.0
"""A machine whose memory is full takes long over it, and is what this is for."""
_PIECE = 32 * 1024
_PORT = 22


@dataclass(frozen=True)
class SshMachine:
    """A machine as it is reached.

    Attributes:
        host_key: As ``ssh-ed25519 AAAA…``; any other key is refused.
    """

    address: str
    host_key: str
    port: int = _PORT


class SshSession:
    """A connection of root's that is open."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self._transport = transport

    def run(self, command: str, write: Callable[[bytes, bool], None]) -> int:
        """Run a command; its exit code.

        Args:
            write: Takes each piece of output, and whether it is of standard error.

        Raises:
            UnavailableError: The connection was lost before it ended.
        """
        channel = self._transport.open_session(timeout=_CONNECT_S)
        channel.exec_command(command)
        channel.shutdown_write()
        while not (channel.exit_status_ready() and not channel.recv_ready() and not channel.recv_stderr_ready()):
            if channel.recv_ready():
                write(channel.recv(_PIECE), False)
            elif channel.recv_stderr_ready():
                write(channel.recv_stderr(_PIECE), True)
            else:
                self._wait(channel)
        return _exit_code(channel)

    def terminal(self) -> int:
        """Give this terminal to a shell on the machine until that ends; its exit code.

        Raises:
            UnavailableError: The connection was lost before it ended.
        """
        channel = self._transport.open_session(timeout=_CONNECT_S)
        with _resized(channel), _raw():
            channel.invoke_shell()
            while True:
                ready, _, _ = select.select([channel, sys.stdin], [], [])
                if channel in ready:
                    piece = channel.recv(_PIECE)
                    if not piece:
                        break
                    _write_all(sys.stdout.fileno(), piece)
                if sys.stdin in ready:
                    typed = os.read(sys.stdin.fileno(), _PIECE)
                    if not typed:
                        channel.shutdown_write()
                        break
                    channel.sendall(typed)
            while piece := channel.recv(_PIECE):
                _write_all(sys.stdout.fileno(), piece)
        return _exit_code(channel)

    def _wait(self, channel: paramiko.Channel) -> None:
        if not self._transport.is_active():
            raise UnavailableError("the connection was lost: sshd has closed, or the machine is gone")
        select.select([channel], [], [], 0.1)


@contextmanager
def connected(machine: SshMachine, key: Path, public: str) -> Iterator[SshSession]:
    """Log in as root while the block lasts.

    Args:
        key: The private key; where it cannot be read without a passphrase, ssh-agent has it.
        public: Public half of the key, as ``ssh-ed25519 AAAA…``.

    Raises:
        UnavailableError: The machine does not answer, or the connection broke.
        RefusedError: Its host key differs from the known one, it refuses the key, or the private key is not at hand.
    """
    logging.getLogger("paramiko").addHandler(logging.NullHandler())  # what goes wrong is told once, by us
    try:
        opened = socket.create_connection((machine.address, machine.port), timeout=_CONNECT_S)
    except OSError as error:
        raise UnavailableError(
            f"sshd at {machine.address} does not answer: {error.strerror or error}",
            hint=Hint(
                "the order opens sshd for one source address; if addresses are translated in between, set",
                Parameter("source", "ADDRESS"),
            ),
        ) from error
    try:
        transport = paramiko.Transport(opened)
        try:
            transport.banner_timeout = transport.auth_timeout = transport.handshake_timeout = _HANDSHAKE_S
            # Its own timer may close it first, which is an end of file without a word.
            with suppress(EOFError):
                transport.start_client(timeout=_HANDSHAKE_S)
            if not transport.initial_kex_done:  # start_client returns then as well
                raise UnavailableError(f"sshd at {machine.address} answers, but no handshake in {_HANDSHAKE_S:g} s")
            _refuse_another(transport, machine)
            transport.auth_publickey("root", _private(key, public))
            transport.set_keepalive(15)
            yield SshSession(transport)
        finally:
            transport.close()
    except paramiko.AuthenticationException as error:
        raise RefusedError(f"{machine.address} refused the key {key}: {error}") from error
    except (paramiko.SSHException, EOFError, OSError) as error:
        why = getattr(error, "strerror", None) or str(error) or "it was closed"
        raise UnavailableError(f"the connection to {machine.address} ended: {why}") from error


def _refuse_another(transport: paramiko.Transport, machine: SshMachine) -> None:
    """Refuse a machine that does not prove to have the host key that is known, before anything is sent to it."""
    shown = transport.get_remote_server_key()
    host_key = f"{shown.get_name()} {base64.b64encode(shown.asbytes()).decode()}"
    if host_key != machine.host_key:
        raise RefusedError(
            f"{machine.address} has another host key than the machine has reported: {host_key}",
            hint=Hint("this may be another computer; nothing was sent;", ("audit", "log")),
        )


def _private(key: Path, public: str) -> paramiko.PKey:

    public_bytes = base64.b64decode(public.split()[1])
    try:
        private_key = paramiko.PKey.from_path(key)
        if private_key.asbytes() == public_bytes:
            return private_key
    except (paramiko.SSHException, UnknownKeyType, ValueError, TypeError, OSError):
        pass  # with a passphrase, or the public half
    agent_key = next(
        (agent_key for agent_key in paramiko.Agent().get_keys() if agent_key.asbytes() == public_bytes), None
    )
    if agent_key is None:
        raise RefusedError(f"{key} cannot be loaded, and ssh-agent does not have it", hint=f"ssh-add {key}")
    return agent_key


def _exit_code(channel: paramiko.Channel) -> int:
    """Return the exit code of an ended command; 255, as ssh does, if the machine sent none."""
    code = channel.recv_exit_status()
    return code if code >= 0 else 255


@contextmanager
def _raw() -> Iterator[None]:
    """Pass every key of this terminal on, if it is one."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setraw(sys.stdin)
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


@contextmanager
def _resized(channel: paramiko.Channel) -> Iterator[None]:
    """Give the other side a terminal of this one's size, if this is one, and follow its changes."""
    if not sys.stdin.isatty():
        yield
        return
    size = os.get_terminal_size()
    channel.get_pty(os.environ.get("TERM", "xterm"), size.columns, size.lines)  # noqa: TID251 - the terminal's kind

    def follow(_signal: int, _frame: FrameType | None) -> None:
        changed = os.get_terminal_size()
        channel.resize_pty(changed.columns, changed.lines)

    before = signal.signal(signal.SIGWINCH, follow)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
