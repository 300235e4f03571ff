"""The sandbox's inside: runs one command for one connection, and ends.

systemd starts it with the connection as stdin, in a unit that holds every limit: memory, address families, system
calls, and time as the last resort. This program adds what makes the limits readable: it says why a script ended. When
it ends, systemd kills everything that is left in the unit, whatever session or group it moved to.
"""

import array
import json
import os
import select
import socket
import subprocess
import sys
from typing import Any

_HEAD = 4
_MAX_REQUEST = 4 * 1024 * 1024


def main(limit_s: float) -> None:
    """Serve the connection on stdin."""
    with socket.socket(fileno=os.dup(0)) as connection:
        request, (out, err) = receive(connection)
        answer = run(request, out, err, connection, limit_s)
        os.close(out)
        os.close(err)
        connection.sendall(json.dumps(answer).encode())


def receive(connection: socket.socket) -> tuple[dict[str, Any], tuple[int, int]]:
    """The request, and the descriptors of stdout and stderr that came with it."""
    room = socket.CMSG_LEN(2 * array.array("i").itemsize)
    head, ancillary, _, _ = connection.recvmsg(_HEAD, room, socket.MSG_WAITALL)
    descriptors = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data)
    length = int.from_bytes(head, "big")
    if len(descriptors) != 2 or len(head) != _HEAD or not 0 < length <= _MAX_REQUEST:  # noqa: PLR2004 - stdout, stderr
        sys.exit("not a request")
    body = connection.recv(length, socket.MSG_WAITALL)
    return json.loads(body), (descriptors[0], descriptors[1])


def run(request: dict[str, Any], out: int, err: int, connection: socket.socket, limit_s: float) -> dict[str, object]:
    """Run the command until it ends, its time is up, or nobody waits for it any more."""
    try:
        child = subprocess.Popen(
            request["argv"],
            cwd=request["cwd"],
            env=request["env"],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
    except OSError as error:
        return {"code": 126, "note": f"The sandbox cannot start it: {error}"}
    ended = os.pidfd_open(child.pid)
    waiting = select.poll()
    waiting.register(ended, select.POLLIN)
    waiting.register(connection, select.POLLRDHUP)
    seen = dict(waiting.poll(limit_s * 1000))
    if ended in seen:
        code = child.wait()
        note = "The script was killed, most likely for its memory." if code == -9 else ""  # noqa: PLR2004 - SIGKILL
        return {"code": code, "note": note}
    if not seen:
        return {"code": 124, "note": f"The script was stopped after {limit_s:g} s, the sandbox's limit."}
    sys.exit(0)


if __name__ == "__main__":
    main(float(sys.argv[1]))
