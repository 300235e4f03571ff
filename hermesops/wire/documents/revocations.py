"""Revoked releases, which must not run any more. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hermesops.wire.documents.lock import Lock, canonical, release_id
from hermesops.wire.documents.signers import is_number
from hermesops.wire.errors import BadRequestError, RefusedError
from hermesops.wire.strict_json import exactly, mapping, matching, object_in, one_line

FORMAT = 1
MAX_BYTES = 1024 * 1024

_FLOOR = re.compile(r"|[0-9][0-9A-Za-z.+!_-]{0,63}")
_NUMBERS = re.compile(r"[0-9]+")
_RELEASE = re.compile(r"[0-9]+(\.[0-9]+)*")


@dataclass(frozen=True)
class Revocations:
    """The revoked releases and the oldest allowed version.

    Attributes:
        number: Rises with every change; a lower number than a known one is refused.
        revoked: Reason of each revocation, by the id of the release.
        floor: Agents older than this version must not be installed; empty for no floor.
    """

    number: int = 0
    revoked: Mapping[str, str] = field(default_factory=dict)
    floor: str = ""

    def why_not(self, lock: Lock) -> str:
        """The reason why a release must not run, as the end of a sentence about it; empty if it may run."""
        if lock.id in self.revoked:
            return f"was revoked: {self.revoked[lock.id]}"
        if self.floor and is_older(lock.agent_version, self.floor):
            return f"is below the floor: no agent older than {self.floor} is installed any more"
        return ""

    def refuse(self, lock: Lock) -> None:
        """Refuse a release that must not run.

        Raises:
            RefusedError: It was revoked, or its agent is older than the floor.
        """
        if why := self.why_not(lock):
            raise RefusedError(f"release {lock.id} {why}")

    def with_revoked(self, release: str, why: str) -> "Revocations":
        """The next revocations, with one more release."""
        return replace(self, number=self.number + 1, revoked={**self.revoked, release: why})

    def with_floor(self, version: str) -> "Revocations":
        """The next revocations, with another floor."""
        return replace(self, number=self.number + 1, floor=version)

    def to_json(self) -> bytes:
        """The canonical bytes of the revocations."""
        return canonical({"format": FORMAT, "number": self.number, "revoked": dict(self.revoked), "floor": self.floor})

    @classmethod
    def from_json(cls, data: bytes) -> "Revocations":
        """Parse and check revocations.

        Raises:
            BadRequestError: They are malformed; the message names the field.
        """
        fields = object_in(data, "revocations", largest=MAX_BYTES)
        exactly(fields, "revocations", required={"format", "number", "revoked", "floor"})
        number = fields["number"]
        if fields["format"] != FORMAT or not is_number(number):
            raise BadRequestError("revocations: format or number is not understood")
        revoked = mapping(fields["revoked"], "revocations.revoked")
        revocations = cls(
            number,
            {release_id(release): one_line(why, "revocations.revoked") for release, why in revoked.items()},
            matching(fields["floor"], _FLOOR, "revocations.floor"),
        )
        if revocations.to_json() != data:
            raise BadRequestError("revocations: not canonical (sorted keys, no blanks, a newline at the end)")
        return revocations


def is_older(version: str, other: str) -> bool:
    """Whether one version of the agent is older than another; a suffix after the numbers makes it older.

    As much of PEP 440 as a machine without a library needs: ``0.20.0rc1`` is older than ``0.20.0``.
    """
    return _rank(version) < _rank(other)


def _rank(version: str) -> tuple[tuple[int, ...], bool, str]:
    public = version.partition("+")[0]
    match = _RELEASE.match(public)
    numbers = [int(number) for number in _NUMBERS.findall(match.group() if match else "")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    rest = public[match.end() if match else 0 :]
    return tuple(numbers), not rest or rest.startswith(".post"), rest
