"""Platform services that may call the relay: admitted by an operator, identified by certificate.

It must not know their requests.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.access.pki.authority import Authority, read_peer
from hermesops.errors import RefusedError, UsageError, require_reason
from hermesops.model.access.certificate import Caller, CallerName, is_ours
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Admitted:
    """Answer to an admitted service; nothing of it is secret.

    Attributes:
        certificate: The service's certificate, PEM.
        authorities: Authorities that the service must trust, PEM of each.
    """

    name: str
    serial: str
    certificate: str
    authorities: str
    not_after: datetime

    def to_json(self) -> bytes:
        """Return the JSON body of the relay's answer."""
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

    ``authority`` signs, and is called when it is first needed; ``life`` is of a certificate.
    """

    def __init__(
        self, registry: Registry, authority: Callable[[], Authority], *, environment: str, life: timedelta
    ) -> None:
        self._registry = registry
        self._authority = authority
        self._environment = environment
        self._life = life

    def admit(self, name: str, request: str, *, why: str) -> Admitted:
        """Let a service call the relay.

        ``request`` is a certificate signing request, PEM.

        Raises:
            UsageError: There is no reason, or it is no name of a service, or one of hermesops' own processes.
            RefusedError: The request is malformed.
        """
        require_reason(why, "relay", "admit", name, "--to", "FOLDER")
        if is_ours(name):
            raise UsageError(f"{name} is a name of hermesops' own processes")
        return self._issue(name, request, why=why)

    def renew(self, present: Caller, request: str) -> Admitted:
        """Give a service another certificate.

        ``present`` is its present certificate, which must still be valid; ``request`` as in ``admit``.

        Raises:
            RefusedError: The request is malformed, or the present certificate is not valid any more.
            UnavailableError: The service renews too often.
        """
        return self._issue(present.name, request, why=present.why, renews=present.serial)

    def caller_of(self, peer: bytes) -> Caller:
        """The service of a certificate.

        ``peer`` is DER; the caller has verified that an authority of ours signed it.

        Raises:
            RefusedError: It is a machine's, another environment's, revoked, expired, or was never issued.
            UnavailableError: The registry does not answer.
        """
        serial, uris = read_peer(peer)
        name = CallerName.parse(uris)
        if name is None or name.environment != self._environment:
            raise RefusedError("this certificate belongs to no service of this environment")
        caller = self._registry.relay_callers.find_valid(serial)
        if caller is None or caller.name != name.name:
            raise RefusedError(f"certificate {serial} of service {name.name} is no longer valid")
        return caller

    def _issue(self, name: str, request: str, *, why: str, renews: str = "") -> Admitted:
        names = CallerName(self._environment, name)
        issued = self._authority().issue(request, names, now=self._registry.now(), life=self._life)
        caller = Caller(
            issued.serial, name, issued.key, issued_at=issued.not_before, not_after=issued.not_after, why=why
        )
        self._registry.relay_callers.add(caller, renews=renews)
        trusted = "".join(self._registry.certificates.list_authorities())
        return Admitted(name, issued.serial, issued.pem, trusted, issued.not_after)
