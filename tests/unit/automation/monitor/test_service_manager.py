"""systemd is told how the monitor is, and nobody where nothing listens."""

import socket
from pathlib import Path

import pytest

from hermesops.automation.monitor.service_manager import SystemdNotify


@pytest.mark.parametrize("form", ["{}/notify", "@hermesops{}"], ids=["file", "abstract"])
def test_datagrams_reach_the_socket_that_is_named(form: str, tmp_path: Path) -> None:
    name = form.format(tmp_path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(name.replace("@", "\0"))
        listening.settimeout(5)
        SystemdNotify(name)("READY=1", "STATUS=leads")
        assert listening.recv(100) == b"READY=1\nSTATUS=leads"


def test_without_a_listener_nothing_happens(tmp_path: Path) -> None:
    SystemdNotify("")("WATCHDOG=1")
    SystemdNotify(str(tmp_path / "nobody"))("WATCHDOG=1")
