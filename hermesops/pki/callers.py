"""Services of the platform that may call the relay: admitted by an operator, identified by certificate.

It must not know what they ask for.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

from hermesops.errors import RefusedError
from hermesops.model.caller import Caller, CallerName
from hermesops.pki.authority import Authority, read_peer


class Rows(Protocol):
    """The registry, as far as callers go."""

    def now(self) -> datetime:
        """Its clock."""

    def list_authorities(self) -> Sequence[str]:
        """PEM of every authority that is trusted."""

    def add_caller(self, made: Caller, *, renews: str = "") -> None:
        """Record a certificate."""

    def good_caller(self, serial: str) -> Caller | None:
        """The certificate of that serial, while it counts."""


@dataclass(frozen=True)
class Admitted:
    """What an admitted service gets; nothing of it is secret.

    Attributes:
        certificate: PEM.
        authorities: Those that the service has to trust, PEM of each.
    """

    name: str
    serial: str
    certificate: str
    authorities: str
    not_after: datetime

    def to_json(self) -> bytes:
        """As the relay answers it."""
        return json.dumps(
            {
                "certificate": self.certificate,
                "authorities": self.authorities,
                "serial": self.serial,
                "not_after": int(self.not_after.timestamp()),
            }
        ).encode()


class Callers:
    """Issues callers' certificates, and identifies callers by them.

    Args:
        authority: Signs; called when it is first needed.
        life: Of a certificate.
    """

    def __init__(self, rows: Rows, authority: Callable[[], Authority], *, environment: str, life: timedelta) -> None:
        self._rows = rows
        self._authority = authority
        self._environment = environment
        self._life = life

    def admit(self, name: str, request: str, *, why: str) -> Admitted:
        """Let a service call the relay.

        Args:
            name: The service's.
            request: A certificate signing request, PEM.
            why: For the audit log.

        Raises:
            UsageError: It is no name of a service.
            RefusedError: The request is malformed.
        """
        return self._issue(name, request, why=why)

    def renew(self, held: Caller, request: str) -> Admitted:
        """Give a service another certificate.

        Args:
            held: Its present certificate, which must still be valid.
            request: As in ``admit``.

        Raises:
            RefusedError: The request is malformed, or the present certificate is not valid any more.
            UnavailableError: The service renews too often.
        """
        return self._issue(held.name, request, why=held.why, renews=held.serial)

    def caller_of(self, peer: bytes) -> Caller:
        """The service of a certificate.

        Args:
            peer: DER; the caller has verified that an authority of ours signed it.

        Raises:
            RefusedError: It is a machine's, another environment's, revoked, expired, or was never issued.
            UnavailableError: The registry does not answer.
        """
        serial, uris = read_peer(peer)
        name = CallerName.parse(uris)
        if name is None or name.environment != self._environment:
            raise RefusedError("this certificate is of no service of this environment")
        held = self._rows.good_caller(serial)
        if held is None or held.name != name.name:
            raise RefusedError(f"certificate {serial} of service {name.name} counts no more")
        return held

    def _issue(self, name: str, request: str, *, why: str, renews: str = "") -> Admitted:
        names = CallerName(self._environment, name)
        issued = self._authority().issue(request, names, now=self._rows.now(), life=self._life)
        made = Caller(issued.serial, name, issued.key, issued_at=issued.not_before, not_after=issued.not_after, why=why)
        self._rows.add_caller(made, renews=renews)
        trusted = "".join(self._rows.list_authorities())
        return Admitted(name, issued.serial, issued.pem, trusted, issued.not_after)
