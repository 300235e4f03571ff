"""The platform's monitoring as a process of hermesops reaches it: its address, and TLS with a certificate of an hour.

It must not know how certificates are made, or what is asked.
"""

import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from requests.adapters import HTTPAdapter

CERTIFICATE_S = 3600.0
"""How long the certificate of a process counts."""

_FRESH_S = CERTIFICATE_S / 2


@dataclass
class MonitoringEndpoint:
    """Where Prometheus, Alertmanager and Loki of the platform are: below ``/prometheus``, ``/alertmanager``, ``/loki``.

    Attributes:
        url: ``https://host:port``.
        make_context: Makes a TLS context whose certificate counts for ``CERTIFICATE_S`` from now; it may read files and
            the registry.
        clock: Seconds of a monotonic clock.
    """

    url: str
    make_context: Callable[[], ssl.SSLContext] = field(repr=False)
    clock: Callable[[], float] = time.monotonic
    _made: tuple[float, ssl.SSLContext] | None = field(default=None, init=False, repr=False)

    def context(self) -> ssl.SSLContext:
        """A TLS context that is good for half an hour at least, for ``httpx.Client(verify=…)``.

        Who runs longer asks again, and opens a new client when it is another object.

        Raises:
            RefusedError: The authority's key is gone, damaged, or of an authority that nobody trusts.
            UnavailableError: The registry does not answer.
        """
        now = self.clock()
        if self._made is None or now - self._made[0] >= _FRESH_S:
            self._made = (now, self.make_context())
        return self._made[1]

    def adapter(self) -> "HTTPAdapter":
        """HTTP adapter for ``requests`` with the endpoint's TLS: ``session.mount(endpoint.url, endpoint.adapter())``.

        Raises:
            As ``context``.
        """
        # Lazily: commands that ask no monitoring must not pay for it.
        from requests.adapters import HTTPAdapter  # noqa: PLC0415

        context = self.context()

        class _Adapter(HTTPAdapter):
            def init_poolmanager(self, *arguments: object, **named: object) -> None:
                super().init_poolmanager(*arguments, **{**named, "ssl_context": context})  # type: ignore[arg-type]  # passed through

            def cert_verify(self, *_arguments: object, **_named: object) -> None:
                """Leave the context as it is; the library would add the world's public authorities to it."""

        return _Adapter()
