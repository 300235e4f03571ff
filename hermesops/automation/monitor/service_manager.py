"""Tells systemd how this process is.

Source: sd_notify(3), systemd 252: datagrams to the socket that ``NOTIFY_SOCKET`` names; ``@`` begins an abstract name.
"""

import contextlib
import socket


class SystemdNotify:
    """Notifies the service manager of a unit of ``Type=notify``.

    Args:
        address: What ``NOTIFY_SOCKET`` says; empty where nothing listens.
    """

    def __init__(self, address: str) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def __call__(self, *messages: str) -> None:
        """Send it; a service manager that does not listen is its own problem."""
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.settimeout(1.0)
            sending.sendto("\n".join(messages).encode(), self._address)
