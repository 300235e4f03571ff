"""What the platform answers to machines: who they are is read off the certificate that they proved to have.

Rows are read for every question, so what was revoked a moment ago opens nothing. It must not know of sockets.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

import structlog

from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.certificate import Certificate, MachineNames
from hermesops.model.ids import InstanceId, MachineId
from hermesops.pki.certificates import Certificates
from hermesops.pki.peer import read_peer
from hermesops.registry import Registry

log = structlog.get_logger()


@dataclass(frozen=True)
class Answer:
    """What a machine is told; JSON, and secret where it is a key."""

    status: int
    body: bytes = field(repr=False)


class DataKeys(Protocol):
    """Keys of data volumes."""

    def release(self, volume_id: str, machine_id: MachineId, instance_id: InstanceId | None) -> bytes:
        """The key of a volume.

        Raises:
            RefusedError: It is not that machine's and not that instance's, or there is none.
            UnavailableError: It cannot be had now.
        """


class PlatformService:
    """Answers machines of one environment.

    Args:
        registry: The registry.
        certificates: Issues certificates.
        data_keys: Releases keys of data volumes.
        environment: Its name.
    """

    def __init__(
        self, registry: Registry, certificates: Certificates, data_keys: DataKeys, *, environment: str
    ) -> None:
        self._registry = registry
        self._certificates = certificates
        self._data_keys = data_keys
        self._environment = environment

    def answer(self, peer: bytes, method: str, path: str, body: bytes) -> Answer:
        """Answer one question.

        Args:
            peer: The certificate that the machine has proved to have, DER; whoever calls has seen that an authority
                of ours signed it.
            method: Of HTTP.
            path: From ``/v1`` on.
            body: What was sent.
        """
        serial = "unknown"
        try:
            serial, names = _read(peer)
            return self._route(self._caller(serial, names), method, path)(body)
        except RefusedError as refused:
            log.warning("machine_refused", serial=serial, path=path[:200], why=refused.message)
            return told(HTTPStatus.FORBIDDEN, {"error": refused.message})
        except UnavailableError as away:
            log.warning("machine_put_off", serial=serial, path=path[:200], why=away.message)
            return told(HTTPStatus.SERVICE_UNAVAILABLE, {"error": "try again in a moment"})
        except HermesError as broken:
            log.exception("question_failed", serial=serial, path=path[:200], why=broken.message)
            return told(HTTPStatus.INTERNAL_SERVER_ERROR, {"error": "the platform's records contradict each other"})

    def _caller(self, serial: str, names: MachineNames | None) -> Certificate:
        if names is None or names.environment != self._environment:
            raise RefusedError("this certificate is of no machine of this environment")
        held = self._registry.certificates.find_valid(serial)
        if held is None:
            raise RefusedError(f"certificate {serial} of machine {names.machine_id} counts no more")
        if (held.machine_id, held.cell, held.instance_id) != (names.machine_id, names.cell, names.instance_id):
            raise RefusedError(f"certificate {serial} is not the one that was issued under its number")
        return held

    def _route(self, caller: Certificate, method: str, path: str) -> Callable[[bytes], Answer]:
        match [method, *path.removeprefix("/").split("/")]:
            case ["POST", "v1", "certificate"]:
                return lambda body: self._renew(caller, body)
            case ["GET", "v1", "standing"]:
                return lambda _: told(HTTPStatus.OK, _standing(caller))
            case ["GET", "v1", "data-key", volume_id] if volume_id:
                return lambda _: self._release(caller, volume_id)
        return lambda _: told(HTTPStatus.NOT_FOUND, {"error": f"there is no {method} {path[:100]}"})

    def _renew(self, caller: Certificate, body: bytes) -> Answer:
        made = self._certificates.renew(body.decode(errors="replace"), caller)
        log.info("certificate_renewed", machine=caller.machine_id, before=caller.serial, serial=made.serial)
        return Answer(HTTPStatus.OK, made.to_json())

    def _release(self, caller: Certificate, volume_id: str) -> Answer:
        key = self._data_keys.release(volume_id, caller.machine_id, caller.instance_id)
        log.info("data_key_released", machine=caller.machine_id, instance=caller.instance_id, volume=volume_id)
        return Answer(HTTPStatus.OK, key)


def told(status: HTTPStatus, said: Mapping[str, object]) -> Answer:
    """An answer of these fields."""
    return Answer(status, json.dumps(said, sort_keys=True).encode())


def _standing(caller: Certificate) -> dict[str, object]:
    return {
        "machine": caller.machine_id,
        "cell": caller.cell,
        "instance": caller.instance_id,
        "not_after": int(caller.not_after.timestamp()),
    }


def _read(peer: bytes) -> tuple[str, MachineNames | None]:
    """Serial and names of a certificate."""
    serial, uris = read_peer(peer)
    return serial, MachineNames.parse(uris)
