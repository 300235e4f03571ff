"""SSH to a machine whose host key is known: what is run there, and who is not believed."""

import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermesops.access.identity.signatures import Signers, fresh_key
from hermesops.errors import RefusedError, UnavailableError
from hermesops.vendor.channel import ssh
from hermesops.vendor.channel.ssh import SshMachine, connected
from tests.support.fakes.ssh_server import FakeSshServer, host_key, ssh_server


@dataclass
class Served:
    """The server, and an operator's key for it."""

    machine: SshMachine
    server: FakeSshServer
    key: Path
    public: str

    def run(self, command: str = "id") -> tuple[int, dict[bool, bytes]]:
        outputs = {False: b"", True: b""}

        def write(piece: bytes, is_error: bool) -> None:  # noqa: FBT001 - as SshSession calls it
            outputs[is_error] += piece

        with connected(self.machine, self.key, self.public) as session:
            return session.run(command, write), outputs


def key_in(folder: Path, name: str) -> tuple[Path, str]:
    file = folder / name
    file.write_text(fresh_key())
    file.chmod(0o600)
    return file, Signers(file).public()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    key, public = key_in(tmp_path, "ada.key")
    private, known = host_key()
    answers = {"id": (b"root\n", b"", 0), "bad": (b"o" * 100_000, b"e" * 70_000, 7), "dies": None, "": (b"$ ", b"", 3)}
    server = FakeSshServer(public, answers)
    with ssh_server(server, private) as port:
        yield Served(SshMachine("127.0.0.1", known, port), server, key, public)


def test_a_command_has_its_streams_and_its_exit_code(served: Served) -> None:
    assert served.run() == (0, {False: b"root\n", True: b""})
    assert served.run("bad") == (7, {False: b"o" * 100_000, True: b"e" * 70_000})


def test_a_shell_without_a_terminal_ends_with_its_exit_code(
    served: Served, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("r") as stdin, connected(served.machine, served.key, served.public) as session:
        monkeypatch.setattr("sys.stdin", stdin)
        assert session.terminal() == 3
    assert capfd.readouterr().out == "$ "


def test_another_host_key_is_refused_before_anything_is_sent(served: Served) -> None:
    served.machine = replace(served.machine, host_key=host_key()[1])
    with pytest.raises(RefusedError, match="another host key than the machine has reported: ssh-ed25519 "):
        served.run()
    assert served.server.asked == []


def test_another_key_is_not_taken(served: Served, tmp_path: Path) -> None:
    served.key, served.public = key_in(tmp_path, "eve.key")
    with pytest.raises(RefusedError, match="refused the key"):
        served.run()


def test_a_connection_that_is_cut_is_told_as_that(served: Served) -> None:
    code, outputs = 0, b""
    try:
        code, streams = served.run("dies")
        outputs = streams[False]
    except UnavailableError as lost:
        assert "127.0.0.1 ended" in lost.message or "connection was lost" in lost.message  # noqa: PT017 - or the code
    else:
        assert (code, outputs) == (255, b"half")


def test_nobody_who_listens_is_told_as_that(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    served.machine = replace(served.machine, port=port)
    with pytest.raises(UnavailableError, match=r"sshd at 127\.0\.0\.1 does not answer"):
        served.run()


@pytest.mark.parametrize("content", [b"", b"SSH-2.0-OpenSSH_9.2\r\n"], ids=["nothing", "a banner"])
def test_a_server_that_does_not_go_on_is_given_up(
    served: Served, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ssh, "_HANDSHAKE_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served.machine = replace(served.machine, port=listener.getsockname()[1])

        def answer() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(content)
                while accepted.recv(4096):
                    pass

        server = threading.Thread(target=answer, daemon=True)
        server.start()
        with pytest.raises(UnavailableError, match=r"no handshake in 0\.5 s|Error reading SSH protocol banner"):
            served.run()
        server.join(timeout=10)
        assert not server.is_alive()


def test_a_server_that_hangs_up_amid_the_handshake_is_told_in_words(served: Served) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        served.machine = replace(served.machine, port=listener.getsockname()[1])

        def answer() -> None:
            accepted, _ = listener.accept()
            with accepted:
                accepted.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                accepted.recv(4096)

        server = threading.Thread(target=answer, daemon=True)
        server.start()
        with pytest.raises(UnavailableError, match=r"answers, but no handshake|ended: \w"):
            served.run()
        server.join(timeout=10)


def test_a_key_with_a_passphrase_needs_the_agent(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    locked = tmp_path / "locked.key"
    locked.write_bytes(served.key.read_bytes())
    locked.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", locked], check=True)
    for unreadable in (locked, served.key.with_suffix(".pub")):
        served.key = unreadable
        with pytest.raises(RefusedError, match="ssh-agent does not have it"):
            served.run()
