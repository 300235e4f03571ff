"""The platform's service for machines, which are identified by the certificate that they proved to have.

Rows are read for every request, so a revoked certificate is refused at once. It must not know of sockets.
"""

import re
import secrets
from collections.abc import Callable
from http import HTTPStatus

import structlog

from hermesops.access.pki.authority import end_of, read_peer
from hermesops.access.pki.certificates import Certificates
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.access.certificate import CallerName, Certificate, MachineNames, is_ours
from hermesops.model.ids import InstanceId, MachineId
from hermesops.serving.server import Answer
from hermesops.store.registry import Registry
from hermesops.wire.documents.handout import Signed
from hermesops.wire.documents.orders import PATH as ORDERS
from hermesops.wire.documents.orders import Orders, Report
from hermesops.wire.errors import BadRequestError

_VOLUME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEY_BYTES = 32


class DataKeys:
    """Releases the keys of data volumes to the machines that own them."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def release(self, volume_id: str, machine_id: MachineId, instance_id: InstanceId | None) -> bytes:
        """The key of a volume, made when it is first asked for; the same each time.

        Raises:
            RefusedError: The volume is another machine's, its key was destroyed, the machine has too many, or the id is
                malformed.
        """
        if not _VOLUME.fullmatch(volume_id):
            raise RefusedError("a data volume's id is a UUID in lower case")
        fresh = secrets.token_hex(_KEY_BYTES)
        return self._registry.data_keys.release(volume_id, machine_id, instance_id, fresh=fresh).encode()


log = structlog.get_logger()


class PlatformService:
    """Answers machines of one environment.

    Args:
        ingest_url: Where machines send metrics and logs, ``https://host:port``; empty for nowhere. Asked each time.
    """

    def __init__(
        self,
        registry: Registry,
        certificates: Certificates,
        data_keys: DataKeys,
        *,
        environment: str,
        ingest_url: Callable[[], str] = str,
    ) -> None:
        self._registry = registry
        self._certificates = certificates
        self._data_keys = data_keys
        self._environment = environment
        self._ingest_url = ingest_url

    def answer(self, peer: bytes, method: str, path: str, body: bytes) -> Answer:
        """Answer one request.

        ``peer`` is the machine's certificate, DER; the caller has verified that an authority of ours signed it.
        ``path`` is from ``/v1`` on.
        """
        serial = "unknown"
        try:
            serial, uris = read_peer(peer)
            if (method, path) == ("GET", "/v1/revocations") and self._is_ours(peer, CallerName.parse(uris)):
                return self._revocations()
            return self._route(self._caller(serial, MachineNames.parse(uris)), method, path)(body)
        except RefusedError as refused:
            log.warning("machine_refused", serial=serial, path=path[:200], why=refused.message)
            return Answer.error(HTTPStatus.FORBIDDEN, "refused", refused.message)
        except UnavailableError as away:
            log.warning("machine_put_off", serial=serial, path=path[:200], why=away.message)
            return Answer.error(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "try again in a moment")
        except HermesError as broken:
            log.exception("question_failed", serial=serial, path=path[:200], why=broken.message)
            status, message = HTTPStatus.INTERNAL_SERVER_ERROR, "the platform's records contradict each other"
            return Answer.error(status, "contradiction", message)

    def _caller(self, serial: str, names: MachineNames | None) -> Certificate:
        if names is None or names.environment != self._environment:
            raise RefusedError("this certificate is of no machine of this environment")
        certificate = self._registry.certificates.find_valid(serial)
        if certificate is None:
            raise RefusedError(f"certificate {serial} of machine {names.machine_id} is no longer valid")
        if (certificate.machine_id, certificate.cell, certificate.instance_id) != (
            names.machine_id,
            names.cell,
            names.instance_id,
        ):
            raise RefusedError(f"certificate {serial} is not the one that was issued under its number")
        return certificate

    def _is_ours(self, peer: bytes, name: CallerName | None) -> bool:
        """Whether it is a process of hermesops, whose certificate has no row."""
        is_named = name is not None and is_ours(name.name) and name.environment == self._environment
        return is_named and end_of(peer) > self._registry.now()

    def _route(self, caller: Certificate, method: str, path: str) -> Callable[[bytes], Answer]:
        match [method, *path.removeprefix("/").split("/")]:
            case ["POST", "v1", "certificate"]:
                return lambda body: self._renew(caller, body)
            case ["GET", "v1", "standing"]:
                return lambda _: Answer.of(HTTPStatus.OK, _standing(caller))
            case ["GET" | "POST", *_] if path == ORDERS:
                return lambda body: self._orders(caller, body)
            case ["GET", "v1", "data-key", volume_id] if volume_id:
                return lambda _: self._release(caller, volume_id)
        return lambda _: Answer.error(HTTPStatus.NOT_FOUND, "not_found", f"there is no {method} {path[:100]}")

    def _revocations(self) -> Answer:
        """The serials of certificates that were revoked and would be valid otherwise: no secret.

        Of each machine they are one or two, as a renewal ends the certificate before it.
        """
        return Answer.of(HTTPStatus.OK, {"serials": self._registry.certificates.list_revoked()})

    def _renew(self, caller: Certificate, body: bytes) -> Answer:
        chain = self._certificates.renew(body.decode(errors="replace"), caller)
        log.info("certificate_renewed", machine=caller.machine_id, before=caller.serial, serial=chain.serial)
        return Answer(HTTPStatus.OK, chain.to_json())

    def _orders(self, caller: Certificate, body: bytes) -> Answer:
        """Take a machine's report on earlier orders, and answer with its present orders.

        The request proves that the caller's certificate is installed, so its older certificates are superseded.
        """
        try:
            report = Report.from_json(body) if body else Report()
        except BadRequestError as malformed:
            raise RefusedError(str(malformed)) from None
        if ended := self._registry.certificates.supersede(caller):
            log.info("certificates_superseded", machine=caller.machine_id, by=caller.serial, count=ended)
        if body:
            self._registry.break_glass.report(caller.machine_id, report)
        order = self._registry.break_glass.current(caller.machine_id, caller.instance_id)
        signed = Signed(order.text, order.signature) if order else None
        return Answer(HTTPStatus.OK, Orders(self._ingest_url(), signed).to_json())

    def _release(self, caller: Certificate, volume_id: str) -> Answer:
        key = self._data_keys.release(volume_id, caller.machine_id, caller.instance_id)
        log.info("data_key_released", machine=caller.machine_id, instance=caller.instance_id, volume=volume_id)
        return Answer(HTTPStatus.OK, key)


def _standing(caller: Certificate) -> dict[str, object]:
    return {
        "machine": caller.machine_id,
        "cell": caller.cell,
        "instance": caller.instance_id,
        "not_after": int(caller.not_after.timestamp()),
    }
