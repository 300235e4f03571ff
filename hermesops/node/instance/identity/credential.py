"""What a machine is handed to prove who it is: its certificate, whom it trusts, and where the platform is. Pure."""

import base64
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from hermesops.node.errors import BadRequestError
from hermesops.node.untrusted import strict_json
from hermesops.node.untrusted.json_fields import exactly, listed, mapping, matching

MAX_BYTES = 64 * 1024

_PEM = re.compile(r"(?:-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]{1,16384}-----END CERTIFICATE-----\n){1,8}")
_URL = re.compile(r"https://[A-Za-z0-9.\[\]:_-]{1,256}")
_SERIAL = re.compile(r"[0-9a-f]{1,40}")
_NAME = re.compile(r"hermesops://[A-Za-z0-9_]{1,64}/(?:machine|cell|instance)/[A-Za-z0-9_.:-]{1,128}")
_HEAD = "hermes-node: "


@dataclass(frozen=True)
class Credential:
    """A certificate with what belongs to it. Nothing of it is secret.

    Attributes:
        certificate: PEM.
        authority: Every certificate that the platform's own may be signed by, PEM.
        url: The platform's service, without a path.
        serial: The certificate's, hexadecimal digits.
        not_before: Seconds since 1970, like ``not_after``.
        names: The URIs in it.
    """

    certificate: str
    authority: str
    url: str
    serial: str
    not_before: int
    not_after: int
    names: tuple[str, ...]

    def to_json(self) -> bytes:
        """The file that ``hermes-node certificate install`` reads, and the answer of the platform's service."""
        return json.dumps(asdict(self), sort_keys=True).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Credential":
        """Read one.

        Raises:
            BadRequestError: It is none.
        """
        try:
            return cls.parse(strict_json.parse(data))
        except ValueError:
            raise BadRequestError("credential: not JSON") from None

    @classmethod
    def parse(cls, raw: object) -> "Credential":
        """Check what somebody wants to be one.

        Raises:
            BadRequestError: It is not; the message names the field.
        """
        fields = mapping(raw, "credential")
        facts = {"serial", "not_before", "not_after", "names"}
        exactly(fields, "credential", required={"certificate", "authority", "url", *facts})
        return cls(
            matching(fields["certificate"], _PEM, "credential.certificate"),
            matching(fields["authority"], _PEM, "credential.authority"),
            matching(fields["url"], _URL, "credential.url"),
            matching(fields["serial"], _SERIAL, "credential.serial"),
            _moment(fields["not_before"], "credential.not_before"),
            _moment(fields["not_after"], "credential.not_after"),
            tuple(matching(name, _NAME, "credential.names") for name in listed(fields["names"], "credential.names")),
        )

    @property
    def renewal_at(self) -> float:
        """When two thirds of its life are over, in seconds since 1970."""
        return self.not_before + (self.not_after - self.not_before) * 2 / 3

    def to_pem(self) -> bytes:
        """The certificate's file: one line of what is not in the certificate or hard to read from it, then PEM.

        One file, so that no crash leaves a certificate beside what is said of another one. Readers of PEM pass over
        what stands before it (RFC 7468, section 2).
        """
        head = {name: value for name, value in asdict(self).items() if name not in {"certificate", "authority"}}
        return f"{_HEAD}{json.dumps(head, sort_keys=True)}\n{self.certificate}".encode()

    @classmethod
    def from_pem(cls, data: bytes, authority: bytes) -> "Credential":
        """Read the certificate's file and that of the authority.

        Raises:
            BadRequestError: They are damaged.
        """
        head, _, certificate = data.decode(errors="replace").partition("\n")
        try:
            facts: Any = strict_json.parse(head.removeprefix(_HEAD))
        except ValueError:
            raise BadRequestError("certificate: its first line is damaged") from None
        both = {"certificate": certificate, "authority": authority.decode(errors="replace")}
        return cls.parse({**mapping(facts, "certificate"), **both})


def der(pem: str) -> bytes:
    """The bytes of the first object in PEM."""
    body = pem.partition("-----\n")[2].partition("-----END")[0]
    return base64.b64decode(body)


def _moment(raw: object, where: str) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or raw < 0:
        raise BadRequestError(f"{where}: not a whole number")
    return raw
