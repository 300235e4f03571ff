"""``release fetch``: takes in what a machine is handed of a release, and believes nothing that is not signed.

The first signers are believed, since only root can hand them in; from then on others count only when one of those has
signed them. Signers and revocations are numbered, and who knows a higher number takes no lower one.
"""

from pathlib import Path
from typing import Any

from hermesops.node import protocol
from hermesops.node.errors import UNFINISHED, RefusedError
from hermesops.node.instance import fencing_token
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.release.activation import PRIVATE
from hermesops.node.release.documents.handout import MAX_HANDOUT_BYTES, Handout, Signed
from hermesops.node.release.documents.lock import Lock
from hermesops.node.release.documents.revocations import Revocations
from hermesops.node.release.documents.signers import AllowedSigners, Kind
from hermesops.node.release.slots.download import ALL_S

MENDS = "`hermesops release signers restore` on an operator's computer mends it"


def fetch(machine: Machine, path: Path, *, lease: FencingToken | None) -> tuple[dict[str, Any], int]:
    """Take in a handout, and as many of the release's files as can be had; what is missing.

    Raises:
        BadRequestError: The uploaded file is no handout; it is gone all the same.
        RefusedError: A signature does not count, the release was revoked, or another node is needed for it.
        OutrankedError: The lease was taken over.
    """
    handout = Handout.from_json(machine.files.take(path, limit=MAX_HANDOUT_BYTES))
    lock = handout.read_lock()
    with machine.files.locked(machine.layout.lock):
        fencing_token.admit(machine, lease)
    with machine.files.locked(machine.layout.release_lock):
        signers = _followed(machine, handout)
        _verify(machine, handout.lock, signers, Kind.LOCK)
        revocations = _newer(machine, handout, signers)
        # All of it holds: a handout that does not hold whole leaves nothing behind.
        machine.files.write_if_changed(machine.layout.signers, signers.to_json(), PRIVATE)
        if revocations is not None:
            machine.files.write_if_changed(machine.layout.revocations, revocations.to_json(), PRIVATE)
        refuse(machine, lock)
        return _gather(machine, handout, lock)


def refuse(machine: Machine, lock: Lock) -> None:
    """Go on when a release may run here.

    Raises:
        RefusedError: It was revoked, is below the floor, or needs a newer hermes-node.
    """
    held_revocations(machine).refuse(lock)
    if lock.node.protocol > protocol.VERSION:
        raise RefusedError(
            f"release {lock.id} needs hermes-node protocol {lock.node.protocol}, and this one speaks {protocol.VERSION}"
        )


def held_revocations(machine: Machine) -> Revocations:
    """The newest that this machine was shown."""
    data = machine.files.read(machine.layout.revocations)
    return Revocations.from_json(data) if data else Revocations()


def fetched_lock(machine: Machine, release: str) -> Lock:
    """The lock of a release that was fetched.

    Raises:
        RefusedError: It was not.
    """
    data = machine.files.read(machine.layout.fetched(release))
    if data is None:
        raise RefusedError(f"release {release} was not fetched: hermes-node release fetch comes first")
    return Lock.from_json(data)


def _gather(machine: Machine, handout: Handout, lock: Lock) -> tuple[dict[str, Any], int]:
    blobs = lock.blobs(machine.slots.python())
    whole = lock.id in machine.slots.names()
    lacking = [] if whole else machine.slots.missing(blobs)
    until = machine.system.monotonic() + ALL_S
    for blob in [each for each in lacking if each.sha256 in handout.links]:
        if machine.system.monotonic() < until and machine.slots.download(blob, handout.links[blob.sha256], until):
            lacking.remove(blob)
    answer: dict[str, Any] = {
        "release": lock.id,
        "installed": whole,
        "missing": [{"name": each.name, "sha256": each.sha256, "size": each.size} for each in lacking],
        "have": len(blobs) - len(lacking),
        "bytes": sum(each.size for each in lacking),
    }
    if lacking:
        return answer, UNFINISHED
    machine.files.write_if_changed(machine.layout.fetched(lock.id), lock.to_json(), PRIVATE)
    if not whole:
        answer["node"] = machine.slots.update_node(lock.node.program)
    return answer, 0


def _followed(machine: Machine, handout: Handout) -> AllowedSigners:
    """Whose signatures count from here on; nothing is written yet."""
    documents = handout.read_signers()
    if not documents:
        raise RefusedError("the handout names no signers")
    held = _held_signers(machine)
    start = held.number if held else 1
    if start > len(documents):
        raise RefusedError(
            f"the handout's signers are number {len(documents)}, and this machine knows number {start}: "
            f"the release store was restored to an older state; {MENDS}"
        )
    if held is not None and documents[start - 1] != held:
        raise RefusedError("the signers in the handout do not follow those that this machine knows")
    before = documents[start - 1]
    if held is None:
        _verify(machine, handout.signers[0], before, Kind.SIGNERS)
    for signed, one in zip(handout.signers[start:], documents[start:], strict=True):
        _verify(machine, signed, before, Kind.SIGNERS)
        before = one
    return before


def _held_signers(machine: Machine) -> AllowedSigners | None:
    data = machine.files.read(machine.layout.signers)
    return AllowedSigners.from_json(data) if data else None


def _newer(machine: Machine, handout: Handout, signers: AllowedSigners) -> Revocations | None:
    """The revocations in a handout where they are newer than those that this machine knows; nothing is written yet."""
    told, held = handout.read_revocations(), held_revocations(machine)
    if handout.revocations is not None:
        _verify(machine, handout.revocations, signers, Kind.REVOCATIONS)
    if told.number < held.number:
        raise RefusedError(
            f"the handout's revocations are number {told.number}, and this machine knows number {held.number}: "
            f"the release store was restored to an older state, or lost them; {MENDS}"
        )
    if told.number == held.number and told != held:
        raise RefusedError(
            f"the handout's revocations are others than those of number {held.number} that this machine knows; {MENDS}"
        )
    return told if told.number > held.number else None


def _verify(machine: Machine, signed: Signed, signers: AllowedSigners, kind: Kind) -> None:
    machine.slots.verify(signed.text.encode(), signed.signature, signers.lines, kind)
