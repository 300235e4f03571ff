"""``release fetch``: takes in what a machine is handed of a release, and believes nothing that is not signed.

The first signers are believed, since only root can hand them in; from then on others count only when one of those has
signed them. Revocations are never forgotten for older ones.
"""

from pathlib import Path
from typing import Any

from hermesops.node import fencing, protocol
from hermesops.node.activation import PRIVATE
from hermesops.node.errors import UNFINISHED, RefusedError
from hermesops.node.machine import Machine
from hermesops.node.protocol import FencingToken
from hermesops.node.release_handout import MAX_HANDOUT_BYTES, Handout, Signed
from hermesops.node.release_lock import Lock
from hermesops.node.revocations import Revocations


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
        fencing.admit(machine, lease)
    with machine.files.locked(machine.layout.release_lock):
        signers = _trust(machine, handout.signers)
        machine.slots.verify(handout.lock.text.encode(), handout.lock.signature, signers)
        _take_revocations(machine, handout, signers)
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
    for blob in [each for each in lacking if each.sha256 in handout.links]:
        if machine.slots.download(blob, handout.links[blob.sha256]):
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


def _trust(machine: Machine, chain: tuple[Signed, ...]) -> str:
    """Whose signatures count from here on."""
    if not chain:
        raise RefusedError("the handout names no signers")
    data = machine.files.read(machine.layout.signers)
    texts = [one.text for one in chain]
    if data is None:
        machine.slots.verify(texts[0].encode(), chain[0].signature, texts[0])
        held, chain = texts[-1], ()
    else:
        held = data.decode()
        if held not in texts:
            raise RefusedError("the signers in the handout do not follow those that this machine knows")
        chain = chain[texts.index(held) + 1 :]
    for one in chain:
        machine.slots.verify(one.text.encode(), one.signature, held)
        held = one.text
    machine.files.write_if_changed(machine.layout.signers, held.encode(), PRIVATE)
    return held


def _take_revocations(machine: Machine, handout: Handout, signers: str) -> None:
    if handout.revocations is None:
        return
    told = handout.read_revocations()
    if told.number > held_revocations(machine).number:
        machine.slots.verify(handout.revocations.text.encode(), handout.revocations.signature, signers)
        machine.files.write_if_changed(machine.layout.revocations, told.to_json(), PRIVATE)
