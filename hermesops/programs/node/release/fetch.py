"""``release fetch``: stores a release's handout and files, and trusts only signed content.

The first signers are trusted, since only root can upload them; later ones only if an earlier signer has signed them.
Signers and revocations are numbered, and a lower number than the stored one is refused.
"""

from pathlib import Path
from typing import Any

from hermesops.programs.node.instance import fencing
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.programs.node.system.https import DOWNLOADS_S
from hermesops.wire import protocol
from hermesops.wire.documents.handout import MAX_HANDOUT_BYTES, Handout, Signed
from hermesops.wire.documents.lock import Lock
from hermesops.wire.documents.revocations import Revocations
from hermesops.wire.documents.signers import AllowedSigners, Kind
from hermesops.wire.errors import ExitCode, RefusedError
from hermesops.wire.protocol import FencingToken

_REPAIR = "`hermesops release signers restore --reason …` on an operator's computer repairs it"


def fetch(machine: Machine, path: Path, *, lease: FencingToken | None) -> tuple[dict[str, Any], ExitCode]:
    """Store a handout and as many of the release's files as are available; return the answer and the exit code.

    Raises:
        BadRequestError: The uploaded file is no handout; it is removed all the same.
        RefusedError: A signature is not valid, the release was revoked, or it needs a newer hermes-node.
        OutrankedError: The lease was taken over.
    """
    handout = Handout.from_json(machine.files.take(path, limit=MAX_HANDOUT_BYTES))
    lock = handout.read_lock()
    with machine.files.locked(machine.layout.lock):
        fencing.admit(machine, lease)
    with machine.files.locked(machine.layout.release_lock):
        signers = _followed(machine, handout)
        _verify(machine, handout.lock, signers, Kind.LOCK)
        revocations = _newer(machine, handout, signers)
        # Only now: a handout of which one signature is not valid changes nothing.
        machine.files.write_if_changed(machine.layout.signers, signers.to_json(), PRIVATE)
        if revocations is not None:
            machine.files.write_if_changed(machine.layout.revocations, revocations.to_json(), PRIVATE)
        refuse(machine, lock)
        return _gather(machine, handout, lock)


def refuse(machine: Machine, lock: Lock) -> None:
    """Refuse a release that must not run here.

    Raises:
        RefusedError: It was revoked, is below the floor, or needs a newer hermes-node.
    """
    held_revocations(machine).refuse(lock)
    if lock.node.protocol > protocol.VERSION:
        raise RefusedError(
            f"release {lock.id} needs hermes-node protocol {lock.node.protocol}, and this one speaks {protocol.VERSION}"
        )


def held_revocations(machine: Machine) -> Revocations:
    """The newest revocations stored on this machine."""
    data = machine.files.read(machine.layout.revocations)
    return Revocations.from_json(data) if data else Revocations()


def fetched_lock(machine: Machine, release: str) -> Lock:
    """The lock of a release that was fetched.

    Raises:
        RefusedError: It was not fetched.
    """
    data = machine.files.read(machine.layout.fetched(release))
    if data is None:
        raise RefusedError(f"release {release} was not fetched: run hermes-node release fetch first")
    return Lock.from_json(data)


def _gather(machine: Machine, handout: Handout, lock: Lock) -> tuple[dict[str, Any], ExitCode]:
    blobs = lock.blobs(machine.slots.python())
    is_installed = lock.id in machine.slots.names()
    lacking = [] if is_installed else machine.slots.missing(blobs)
    until = machine.system.monotonic() + DOWNLOADS_S
    for blob in [each for each in lacking if each.sha256 in handout.links]:
        if machine.system.monotonic() < until and machine.slots.download(blob, handout.links[blob.sha256], until):
            lacking.remove(blob)
    answer: dict[str, Any] = {
        "release": lock.id,
        "installed": is_installed,
        "missing": [{"name": each.name, "sha256": each.sha256, "size": each.size} for each in lacking],
        "have": len(blobs) - len(lacking),
        "bytes": sum(each.size for each in lacking),
    }
    if lacking:
        return answer, ExitCode.UNFINISHED
    machine.files.write_if_changed(machine.layout.fetched(lock.id), lock.to_json(), PRIVATE)
    if not is_installed:
        answer["node"] = machine.slots.update_node(lock.node.program)
    return answer, ExitCode.OK


def _followed(machine: Machine, handout: Handout) -> AllowedSigners:
    """The signers after this handout; nothing is written yet."""
    documents = handout.read_signers()
    if not documents:
        raise RefusedError("the handout names no signers")
    data = machine.files.read(machine.layout.signers)
    known = AllowedSigners.from_json(data) if data else None
    start = known.number if known else 1
    if start > len(documents):
        raise RefusedError(
            f"the handout's signers are number {len(documents)}, and this machine knows number {start}: "
            f"the release store was restored to an older state; {_REPAIR}"
        )
    if known is not None and documents[start - 1] != known:
        raise RefusedError("the signers in the handout do not follow those that this machine knows")
    before = documents[start - 1]
    if known is None:
        _verify(machine, handout.signers[0], before, Kind.SIGNERS)
    for signed, document in zip(handout.signers[start:], documents[start:], strict=True):
        _verify(machine, signed, before, Kind.SIGNERS)
        before = document
    return before


def _newer(machine: Machine, handout: Handout, signers: AllowedSigners) -> Revocations | None:
    """A handout's revocations, if they are newer than this machine's; nothing is written yet."""
    new, known = handout.read_revocations(), held_revocations(machine)
    if handout.revocations is not None:
        _verify(machine, handout.revocations, signers, Kind.REVOCATIONS)
    if new.number < known.number:
        raise RefusedError(
            f"the handout's revocations are number {new.number}, and this machine knows number {known.number}: "
            f"the release store was restored to an older state, or lost them; {_REPAIR}"
        )
    if new.number == known.number and new != known:
        raise RefusedError(
            f"the handout's revocations differ from this machine's with the same number {known.number}; {_REPAIR}"
        )
    return new if new.number > known.number else None


def _verify(machine: Machine, signed: Signed, signers: AllowedSigners, kind: Kind) -> None:
    machine.slots.verify(signed.text.encode(), signed.signature, signers.lines, kind)
