"""Certificates for machines: signed, and recorded before they are handed out.

It must not know how machines are reached.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from hermesops.model.certificate import Certificate, MachineNames
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.node.instance.identity.credential import Credential

if TYPE_CHECKING:
    from hermesops.pki.authority import Authority


class Rows(Protocol):
    """The registry, as far as certificates go."""

    def now(self) -> datetime:
        """Its clock."""

    def list_authorities(self) -> Sequence[str]:
        """PEM of every authority that machines trust."""

    def add_certificate(self, made: Certificate, *, renews: str = "") -> None:
        """Record a certificate."""

    def find_certificate(self, serial: str) -> Certificate | None:
        """The certificate of that serial."""


class Certificates:
    """Issues certificates of one environment.

    Args:
        authority: Signs; called when it is first needed.
        url: Where machines reach the platform's service.
        life: Of a certificate.
    """

    def __init__(
        self, rows: Rows, authority: "Callable[[], Authority]", *, environment: str, url: str, life: timedelta
    ) -> None:
        self._rows = rows
        self._authority = authority
        self._environment = environment
        self._url = url
        self._life = life

    def issue(
        self,
        request: str,
        machine_id: MachineId,
        *,
        cell: CellName | None = None,
        instance_id: InstanceId | None = None,
    ) -> Credential:
        """Give a machine a certificate of these names.

        Raises:
            RefusedError: The request is malformed.
            KeyTakenError: It has another machine's key.
        """
        return self._issue(request, MachineNames(self._environment, machine_id, cell, instance_id))

    def renew(self, request: str, held: Certificate) -> Credential:
        """Give a machine another certificate with the same names.

        Args:
            request: With any key of the machine.
            held: Its present certificate, which must still be valid.

        Raises:
            RefusedError: The request is malformed, or the present certificate is not valid any more.
            UnavailableError: The machine renews too often.
        """
        names = MachineNames(self._environment, held.machine_id, held.cell, held.instance_id)
        return self._issue(request, names, renews=held.serial)

    def is_known(self, serial: str) -> bool:
        """Whether a certificate is one that was issued here, revoked or not."""
        return self._rows.find_certificate(serial) is not None

    def _issue(self, request: str, names: MachineNames, *, renews: str = "") -> Credential:
        issued = self._authority().issue(request, names, now=self._rows.now(), life=self._life)
        made = Certificate(
            issued.serial,
            issued.key,
            names.machine_id,
            names.instance_id,
            names.cell,
            issued_at=issued.not_before,
            not_after=issued.not_after,
        )
        self._rows.add_certificate(made, renews=renews)
        return Credential(
            issued.pem,
            "".join(self._rows.list_authorities()),
            self._url,
            issued.serial,
            int(issued.not_before.timestamp()),
            int(issued.not_after.timestamp()),
            names.uris,
        )
