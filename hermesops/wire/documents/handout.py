"""The handout of a release to a machine: its lock, the allowed signers, the revocations, and where its files are.

Pure: the reader verifies the signatures.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from hermesops.wire.documents.lock import Lock, canonical
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.documents.signers import MAX_CHAIN, AllowedSigners
from hermesops.wire.errors import BadRequestError
from hermesops.wire.strict_json import exactly, listed, mapping, matching, object_in, string

FORMAT = 1
MAX_HANDOUT_BYTES = 4 * 1024 * 1024
_MAX_SIGNATURE = 16 * 1024

_SHA256 = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(r"https?://[!-~]{1,4096}")


@dataclass(frozen=True)
class Signed:
    """A text with a signature over its bytes, armored as ``ssh-keygen -Y sign`` writes it."""

    text: str
    signature: str

    @classmethod
    def parse(cls, raw: object, where: str) -> "Signed":
        """Read a signed text.

        Raises:
            BadRequestError: It is malformed.
        """
        fields = mapping(raw, where)
        exactly(fields, where, required={"text", "signature"})
        signature = string(fields["signature"], f"{where}.signature")
        if len(signature) > _MAX_SIGNATURE:
            raise BadRequestError(f"{where}.signature: too long for a signature")
        return cls(string(fields["text"], f"{where}.text"), signature)


def read_chain(chain: Sequence[Signed]) -> tuple[AllowedSigners, ...]:
    """Allowed signers, oldest first, checked in everything but their signatures.

    Raises:
        BadRequestError: A file of signers is malformed, or not the next one.
    """
    read = tuple(AllowedSigners.from_json(signed.text.encode()) for signed in chain)
    for place, document in enumerate(read, 1):
        if document.number != place:
            raise BadRequestError(f"signers: number {document.number} in place of number {place}")
    return read


@dataclass(frozen=True)
class Handout:
    """The facts that a machine needs about one release.

    Attributes:
        lock: The release's lock; its text is ``Lock.to_json()``.
        signers: All files of allowed signers that were ever valid (``AllowedSigners.to_json()``), oldest first, each
            signed by a key of the one before it and the first by one of its own. A machine that knows one of them
            continues from there, one that knows none takes the last.
        revocations: The revoked releases; ``None`` before the first revocation.
        links: Temporary URLs of files by SHA-256; a file without a link is uploaded.
    """

    lock: Signed
    signers: tuple[Signed, ...]
    revocations: Signed | None = None
    links: Mapping[str, str] = field(default_factory=dict, repr=False)

    def read_lock(self) -> Lock:
        """The lock, checked in everything but its signature.

        Raises:
            BadRequestError: It is malformed.
        """
        return Lock.from_json(self.lock.text.encode())

    def read_signers(self) -> tuple[AllowedSigners, ...]:
        """The signers, checked in everything but their signatures.

        Raises:
            BadRequestError: A file of signers is malformed, or not the next one.
        """
        return read_chain(self.signers)

    def read_revocations(self) -> Revocations:
        """The revocations, checked in everything but their signature.

        Raises:
            BadRequestError: They are malformed.
        """
        return Revocations.from_json(self.revocations.text.encode()) if self.revocations else Revocations()

    def to_json(self) -> bytes:
        """The file that ``hermes-node release fetch`` reads; its links give access to the stored files."""
        return canonical({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, data: bytes) -> "Handout":
        """Parse a handout.

        Raises:
            BadRequestError: It is malformed; the message names the field.
        """
        fields = object_in(data, "handout", largest=MAX_HANDOUT_BYTES)
        exactly(fields, "handout", required={"format", "lock", "signers", "revocations", "links"})
        if fields["format"] != FORMAT:
            raise BadRequestError(f"handout: format {fields['format']!r} is not understood, only {FORMAT}")
        chain = listed(fields["signers"], "signers")
        if len(chain) > MAX_CHAIN:
            raise BadRequestError(f"signers: more than {MAX_CHAIN}")
        links = mapping(fields["links"], "links")
        revocations = fields["revocations"]
        return cls(
            lock=Signed.parse(fields["lock"], "lock"),
            signers=tuple(Signed.parse(signed, f"signers[{number}]") for number, signed in enumerate(chain)),
            revocations=None if revocations is None else Signed.parse(revocations, "revocations"),
            links={
                matching(sha256, _SHA256, "links: a name"): matching(url, _URL, f"links.{sha256}")
                for sha256, url in links.items()
            },
        )
