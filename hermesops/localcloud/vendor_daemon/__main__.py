"""Starts the daemon on a machine."""

import os
import socket

from . import config, processes
from .server import Server


def tell_systemd() -> None:
    """Say that connections are accepted, if systemd started this and wants to know (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")  # noqa: TID251 - a program of its own, on a machine
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as speaker:
            speaker.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            speaker.send(b"READY=1")


processes.take_name()
Server(config.load()).run(tell_systemd)
