"""Certificates for machines: signed, and recorded before they are handed out.

It must not know how machines are reached.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING

from hermesops.model.access.certificate import Certificate, MachineNames
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.store.registry import Registry
from hermesops.wire.protocol import Credential

if TYPE_CHECKING:  # commands that issue no certificate load no cryptography
    from hermesops.access.pki.authority import Authority


class Certificates:
    """Issues certificates of one environment.

    Args:
        authority: Signs; called when it is first needed.
        url: Where machines reach the platform's service; empty where there is none.
    """

    def __init__(
        self, registry: Registry, authority: Callable[[], "Authority"], *, environment: str, url: str, life: timedelta
    ) -> None:
        self._registry = registry
        self._authority = authority
        self._environment = environment
        self.url = url
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
            KeyTakenError: It has another machine's key, or one that the machine had for another instance or none.
        """
        return self._issue(request, MachineNames(self._environment, machine_id, cell, instance_id))

    def renew(self, request: str, present: Certificate) -> Credential:
        """Give a machine another certificate with the same names.

        The request may have any key of the machine; ``present`` must still be valid, and name the
        machine's present owner. It ends when the machine first shows the new one.

        Raises:
            RefusedError: The request is malformed, the present certificate is not valid any more, or the machine
                changed hands.
            UnavailableError: The machine renews too often.
        """
        names = MachineNames(self._environment, present.machine_id, present.cell, present.instance_id)
        return self._issue(request, names, renews=present.serial)

    def is_known(self, serial: str) -> bool:
        """Return whether a certificate was issued here, revoked or not."""
        return self._registry.certificates.find(serial) is not None

    def _issue(self, request: str, names: MachineNames, *, renews: str = "") -> Credential:
        issued = self._authority().issue(request, names, now=self._registry.now(), life=self._life)
        certificate = Certificate(
            issued.serial,
            issued.key,
            names.machine_id,
            names.instance_id,
            names.cell,
            issued_at=issued.not_before,
            not_after=issued.not_after,
        )
        self._registry.certificates.add(certificate, renews=renews)
        return Credential(
            issued.pem,
            "".join(self._registry.certificates.list_authorities()),
            self.url,
            issued.serial,
            int(issued.not_before.timestamp()),
            int(issued.not_after.timestamp()),
            names.uris,
        )
