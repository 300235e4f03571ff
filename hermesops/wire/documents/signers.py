"""The allowed signers of releases, and the kinds of signed texts. Pure.

The namespace that is signed with a text binds the signature to its kind, so that a text of one kind is never accepted
as another.

Source: ssh-keygen(1) of OpenSSH 9.2, "ALLOWED SIGNERS".
"""

import base64
import binascii
import re
from dataclasses import dataclass
from enum import StrEnum

from hermesops.wire.documents.lock import canonical
from hermesops.wire.errors import BadRequestError
from hermesops.wire.strict_json import exactly, object_in, string

FORMAT = 1
MAX_BYTES = 64 * 1024
MAX_LINES = 64
MAX_NUMBER = 10**9
MAX_CHAIN = 256
"""Changes of signers that a store can hold."""


class Kind(StrEnum):
    """The kind of a signed text: the namespace of its signature."""

    LOCK = "hermesops-release"
    SIGNERS = "hermesops-signers"
    REVOCATIONS = "hermesops-revocations"
    BREAK_GLASS = "hermesops-break-glass"
    """An order to open a machine's sshd: ``node.orders.break_glass``."""


OF_RELEASES = (Kind.LOCK, Kind.SIGNERS, Kind.REVOCATIONS)

NAMESPACES = ",".join(Kind)
"""Namespaces of a signer that may sign everything; who signs releases is root on every machine already."""

_LINE = re.compile(
    r"(?P<principals>[!#-~]{1,256})"
    r'(?:[ \t]+(?P<options>(?:[A-Za-z-]+(?:="[ !#-~]{1,512}")?)(?:,[A-Za-z-]+(?:="[ !#-~]{1,512}")?){0,7}))?'
    r"[ \t]+(?P<type>ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(?:256|384|521)"
    r"|sk-(?:ssh-ed25519|ecdsa-sha2-nistp256)@openssh\.com)"
    r"[ \t]+(?P<key>[A-Za-z0-9+/]{40,4096}={0,2})(?:[ \t]+[ -~]{0,256})?"
)


@dataclass(frozen=True)
class AllowedSigners:
    """One file of allowed signers in the chain of all that were ever valid.

    Attributes:
        number: Its place in the chain, from 1; a lower number than a known one is refused.
        lines: In OpenSSH's format.
    """

    number: int
    lines: str

    def to_json(self) -> bytes:
        """The canonical bytes of the signers, which are signed."""
        return canonical({"format": FORMAT, "number": self.number, "signers": self.lines})

    @classmethod
    def from_json(cls, data: bytes) -> "AllowedSigners":
        """Parse and check a file of allowed signers.

        Raises:
            BadRequestError: It is malformed; the message names the field or the line.
        """
        fields = object_in(data, "signers", largest=2 * MAX_BYTES)
        exactly(fields, "signers", required={"format", "number", "signers"})
        number = fields["number"]
        if fields["format"] != FORMAT or not is_number(number) or number < 1:
            raise BadRequestError("signers: format or number is not understood")
        signers = cls(number, checked_lines(string(fields["signers"], "signers.signers")))
        if signers.to_json() != data:
            raise BadRequestError("signers: not canonical (sorted keys, no blanks, a newline at the end)")
        return signers


def is_number(raw: object) -> bool:
    """Whether something can be the number of a signed text."""
    return isinstance(raw, int) and not isinstance(raw, bool) and 0 <= raw <= MAX_NUMBER


def checked_lines(text: str) -> str:
    """Check every line of allowed signers; return the text unchanged.

    Raises:
        BadRequestError: A line is not, there is no line, or there are too many; the message names the line.
    """
    lines = [line.strip(" \t\r") for line in text.split("\n")]
    if len(text.encode()) > MAX_BYTES or len(lines) > MAX_LINES:
        raise BadRequestError(f"signers: more than {MAX_LINES} lines, or more than {MAX_BYTES} bytes")
    entries = [(number, line) for number, line in enumerate(lines, 1) if line and not line.startswith("#")]
    for number, line in entries:
        match = _LINE.fullmatch(line)
        if match is None or type_of_key(match["key"]) != match["type"]:
            raise BadRequestError(f'signers: line {number} is not `identity namespaces="…" ssh-ed25519 AAAA…`')
    if not entries:
        raise BadRequestError("signers: nobody")
    return text


def type_of_key(key: str) -> str:
    """The type inside a public key, after a length of four bytes."""
    try:
        data = base64.b64decode(key, validate=True)
    except binascii.Error:
        return ""
    return data[4 : 4 + int.from_bytes(data[:4])].decode(errors="replace")
