"""Addresses of this computer, as others see them."""

import socket

from hermesops.wire.errors import NotReadyError

_PORT = 22
"""Any port does: nothing is sent."""


def own_address(host: str) -> str:
    """The address of this computer that a host sees it at, unless something translates addresses between the two.

    Nothing is sent there. ``host`` is a name or an address.

    Raises:
        NotReadyError: No route leads there, or nobody knows the name.
    """
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, _PORT, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as way:
            way.connect(target)
            return str(way.getsockname()[0])
    except (OSError, UnicodeError) as error:
        raise NotReadyError(f"no route from here to {host}: {error}") from error
