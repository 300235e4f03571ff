"""Starts the daemon on a machine."""

import os
import socket

from . import system
from .server import Config, Server


def notify_systemd() -> None:
    """Report that connections are accepted, if systemd started this process and wants to know (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET", "")  # noqa: TID251 - a program of its own, on a machine
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            notify.send(b"READY=1")


system.take_name()
Server(Config.load()).run(notify_systemd)
