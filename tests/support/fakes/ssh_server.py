"""An SSH server on loopback that runs nothing: it answers each command with what a test has laid down."""

import base64
import io
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)

from hermesops.access.identity.signatures import fresh_key
from hermesops.base.waiting import pause_blocking


def host_key() -> tuple[paramiko.PKey, str]:
    """A fresh host key, and its public half as ``ssh-ed25519 AAAA…``."""
    key = paramiko.Ed25519Key.from_private_key(io.StringIO(fresh_key()))
    return key, f"{key.get_name()} {base64.b64encode(key.asbytes()).decode()}"


@dataclass
class FakeSshServer(paramiko.ServerInterface):
    """Takes one key.

    Attributes:
        public: The key that may log in, as ``ssh-ed25519 AAAA…``.
        answers: Output, errors and exit code by command; ``None`` hangs up in the middle.
        asked: Who tried to log in.
    """

    public: str
    answers: dict[str, tuple[bytes, bytes, int] | None]
    asked: list[str] = field(default_factory=list)

    def get_allowed_auths(self, _username: str) -> str:
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self.asked.append(username)
        shown = f"{key.get_name()} {base64.b64encode(key.asbytes()).decode()}"
        return AUTH_SUCCESSFUL if (username, shown) == ("root", self.public) else AUTH_FAILED

    def check_channel_request(self, kind: str, _number: int) -> int:
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_shell_request(self, channel: paramiko.Channel) -> bool:
        threading.Thread(target=self._answer, args=(channel, ""), daemon=True).start()
        return True

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._answer, args=(channel, command.decode()), daemon=True).start()
        return True

    def _answer(self, channel: paramiko.Channel, command: str) -> None:
        pause_blocking(0.1)  # the request has to be granted first, by the thread that has just asked for it
        answer = self.answers[command]
        if answer is None:
            channel.sendall(b"half")
            channel.get_transport().close()
            return
        out, err, code = answer
        channel.sendall(out)
        channel.sendall_stderr(err)
        channel.send_exit_status(code)
        channel.close()


@contextmanager
def ssh_server(server: FakeSshServer, key: paramiko.PKey) -> Iterator[int]:
    """Serve while the block lasts; gives the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        transports: list[paramiko.Transport] = []

        def serve() -> None:
            with suppress(OSError):
                while True:
                    transport = paramiko.Transport(listener.accept()[0])
                    transports.append(transport)
                    transport.add_server_key(key)
                    with suppress(paramiko.SSHException, EOFError):
                        transport.start_server(server=server)

        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for transport in transports:
                transport.close()
