"""In the place of hermes-agent's gateway: does for systemd what the agent does, and for tests what its terminal does.

It runs on a machine, from a slot like the agent's, and imports nothing of ours.
"""

import os
import socket
import subprocess
import time
from pathlib import Path

COMMAND = Path("/var/lib/hermes/command")
_WATCHDOG_S = 5


def main() -> None:
    """Say that it is ready and go on living, running each command that appears at its place."""
    report("READY=1")
    while True:
        for _ in range(_WATCHDOG_S * 10):
            if COMMAND.exists():
                command = COMMAND.read_text()
                COMMAND.unlink()
                subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL)
            time.sleep(0.1)  # noqa: TID251 - a program of its own, on a machine
        report("WATCHDOG=1")


def report(state: str) -> None:
    """Notify systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        connection.sendto(state.encode(), os.environ["NOTIFY_SOCKET"])  # noqa: TID251 - as above


if __name__ == "__main__":
    main()
