"""Probes nginx of this host: whether it answers, and the expiry of the certificate that it presents."""

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path

_ANSWER_S = 3.0


@dataclass(frozen=True)
class Nginx:
    """This host's nginx.

    Args:
        authorities: PEM of those that may have signed its certificate.
    """

    port: int
    authorities: Path

    def not_after_s(self) -> int:
        """Expiry of nginx's certificate, in seconds since 1970.

        Raises:
            OSError, ValueError: It does not answer, or shows one that is not valid now.
        """
        context = ssl.create_default_context(cafile=str(self.authorities))
        context.check_hostname = False  # it has the name that others call it by
        with (
            socket.create_connection(("127.0.0.1", self.port), timeout=_ANSWER_S) as raw,
            context.wrap_socket(raw) as wrapped,
        ):
            shown = wrapped.getpeercert() or {}
        return ssl.cert_time_to_seconds(str(shown.get("notAfter", "")))
