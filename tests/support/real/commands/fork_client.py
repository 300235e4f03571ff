"""Stands where Python and hermesops would: the fork server is them, and this process lives and dies with its fork.

Started for each command, so it loads no more than it needs. The fork has this process's streams, folder and
environment, but not its namespaces and limits: what is run under others is the installed program. Signals that a
process can catch are passed on, SIGTSTP as SIGSTOP; when this process is killed, the fork is killed.
"""

import _signal  # type: ignore[import-not-found]
import _socket
import array
import marshal
import os
import sys

FORKED = (
    *("hermesops", "pulumi-resource-justavps"),
    *("tests.support.crash.programs.dying_command", "tests.support.users.kills.hasty_command"),
)
"""Programs that the server is."""

INHERITS = "--socket"
"""The option of a command that is given a socket, as a fork is not."""

_PASSED_ON = {
    **{number: number for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGCONT)},
    _signal.SIGTSTP: _signal.SIGSTOP,
}


def main(python: str) -> None:
    """Be a program, or Python.

    Args:
        python: The real one's path.
    """
    name, arguments = os.path.basename(sys.argv[0]), sys.argv[1:]  # noqa: PTH119 - pathlib takes longer to load
    if name == "python" and arguments[:1] == ["-m"]:
        name, *arguments = arguments[1:]
    if name not in FORKED or INHERITS in arguments:
        os.execv(python, [python, *sys.argv[1:]])  # noqa: S606 - as it stands there
    _signal.pthread_sigmask(_signal.SIG_BLOCK, _PASSED_ON)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(os.path.join(os.path.dirname(sys.argv[0]), "socket"))  # noqa: PTH118, PTH120 - as above
    _ask(connection, (name, arguments, dict(os.environ), os.getcwd()))  # noqa: PTH109, TID251 - as above
    fork = int.from_bytes(_read(connection), "little")
    for caught in _PASSED_ON:
        _signal.signal(caught, lambda number, _: os.kill(fork, _PASSED_ON[number]))
    _signal.pthread_sigmask(_signal.SIG_UNBLOCK, _PASSED_ON)
    _end_like(int.from_bytes(_read(connection), "little", signed=True))


def _ask(connection: _socket.socket, program: tuple[str, list[str], dict[str, str], str]) -> None:
    data = marshal.dumps(program)
    streams = array.array("i", (0, 1, 2))
    connection.sendmsg([len(data).to_bytes(4, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    sent = 0
    while sent < len(data):
        sent += connection.send(data[sent:])


def _read(connection: _socket.socket) -> bytes:
    """Four bytes of the server, which writes them at once."""
    data = connection.recv(4)
    if not data:
        sys.stderr.write("the fork server has ended\n")
        os._exit(1)
    return data


def _end_like(code: int) -> None:
    if code < 0:
        if -code not in {_signal.SIGKILL, _signal.SIGSTOP}:
            _signal.signal(-code, _signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)
