"""Takes the place of a script's process: has it run in the sandbox, and ends as it ended.

Usage: ``enter.py PROGRAM [ARGUMENT …]``. Output goes straight from the sandbox to this process's stdout and stderr.
When this process dies, the sandbox ends.
"""

import array
import json
import os
import socket
import sys

SOCKET = "/run/hermes-sandbox.socket"
UNAVAILABLE = 70


def main() -> int:
    """Hand the command over and wait; the script's exit code, 128 and its signal, or 70 without a sandbox."""
    cwd = os.getcwd()  # noqa: PTH109 - pathlib would cost each script some 10 ms
    request = json.dumps({"argv": sys.argv[1:], "cwd": cwd, "env": dict(os.environ)}).encode()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(SOCKET)
            descriptors = array.array("i", [1, 2])
            head = len(request).to_bytes(4, "big")
            connection.sendmsg([head], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
            connection.sendall(request)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError as error:
            sys.stderr.write(f"The sandbox is not available: {error}\n")
            return UNAVAILABLE
    if not answer:
        sys.stderr.write("The script was stopped: it used more time or memory than the sandbox allows.\n")
        return 137
    result = json.loads(answer)
    if result["note"]:
        sys.stderr.write(f"{result['note']}\n")
    code = int(result["code"])
    return code if code >= 0 else 128 - code


sys.exit(main())
