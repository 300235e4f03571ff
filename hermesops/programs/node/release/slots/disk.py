"""Releases on a real machine's disk: their files, the slots made of them, and the links to the running one.

This module is the ``Slots`` of ``node.ports``; it must not decide whether something may be done. Everything here is
root's own, and every new name is on the disk before the call returns.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from hermesops.programs.node.ports import Trial, TrialResult
from hermesops.programs.node.release import config_migration
from hermesops.programs.node.release.sandbox import run_trial
from hermesops.programs.node.release.slots import install as slot_contents
from hermesops.programs.node.release.slots.install import update_node
from hermesops.programs.node.system import files
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.programs.node.system.files import Access
from hermesops.programs.node.system.https import download
from hermesops.wire import processes
from hermesops.wire.documents.lock import Blob, Lock
from hermesops.wire.documents.signers import Kind
from hermesops.wire.errors import RefusedError
from hermesops.wire.layout import Layout


def verify(data: bytes, signature: str, signers: str, kind: Kind, /) -> str:
    """The signer of some bytes as that kind of text, as named in the allowed signers.

    Raises:
        RefusedError: No allowed signer has signed them.
        NotReadyError: ssh-keygen is missing.

    Source:
        ssh-keygen(1) of OpenSSH 9.2, "-Y find-principals", "-Y verify", "ALLOWED SIGNERS".
    """
    # Root has a tmpfs there, which no full disk stops; simulated machines are not root's.
    with tempfile.TemporaryDirectory(dir="/run" if os.geteuid() == 0 else None) as folder:
        allowed, signed = Path(folder, "signers"), Path(folder, "signature")
        allowed.write_text(signers, encoding="utf-8")
        signed.write_text(signature, encoding="utf-8")
        principals = _ssh_keygen("-Y", "find-principals", "-s", str(signed), "-f", str(allowed))
        who = principals.stdout.decode(errors="replace").split("\n")[0]
        if principals.returncode or not who:
            raise RefusedError("the signature is by no release signer of this machine")
        words = ("-Y", "verify", "-f", str(allowed), "-I", who, "-n", kind.value, "-s", str(signed))
        if _ssh_keygen(*words, stdin=data).returncode:
            raise RefusedError(f"the signature of {who} is not valid for this text as {kind}")
    return who


class DiskSlots:
    """The slots on a real machine's disk."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    def python(self) -> str:
        """The machine's Python, as ``3.11``: hermes-node runs under the same one that slots are made with."""
        return f"{sys.version_info.major}.{sys.version_info.minor}"

    def verify(self, data: bytes, signature: str, signers: str, kind: Kind, /) -> str:
        """Verify a signature; see the function ``verify``."""
        return verify(data, signature, signers, kind)

    def run_trial(self, trial: Trial, /) -> TrialResult:
        """Run a trial of a release; see ``node.release.sandbox.run_trial``."""
        return run_trial(trial)

    def migrate(self, home: AgentHome, slot: Path, unit: str, /) -> None:
        """Migrate the user's configuration; see ``node.release.config_migration.run``. The unit knows the home."""
        del home
        config_migration.run(slot, unit)

    def update_node(self, program: Blob, /) -> str:
        """Install a slot's hermes-node; see ``node.release.slots.install``."""
        return update_node(self.layout, program)

    def missing(self, blobs: Iterable[Blob], /) -> list[Blob]:
        """Store uploaded files; returns those still missing. A file with another hash is removed."""
        place, incoming = self.layout.blobs, self.layout.blobs / "incoming"
        incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
        lacking = []
        for blob in blobs:
            stored, came = place / blob.sha256, incoming / blob.sha256
            if not stored.exists() and came.exists():
                _take_in(blob, came, place)
            if not stored.exists():
                lacking.append(blob)
        return lacking

    def download(self, blob: Blob, url: str, until: float, /) -> bool:
        """Download a file; return whether that worked. A file is only used after its hash was checked."""
        target = self.layout.blobs / "incoming" / blob.sha256
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not download(url, target, size=blob.size, until=until):
            target.unlink(missing_ok=True)
            return False
        _take_in(blob, target, self.layout.blobs)
        return (self.layout.blobs / blob.sha256).exists()

    def names(self) -> list[str]:
        """The releases that are completely installed, by id, sorted."""
        return sorted(path.parent.name for path in self.layout.releases.glob("*/release.json"))

    def install(self, lock: Lock, record: bytes, /) -> None:
        """Make a release's slot complete; ``release.json`` comes last, after all else is on the disk.

        Raises:
            RefusedError: There is no room, with the figures.
            NotReadyError: It cannot be installed; a repetition begins anew.
        """
        slot = self.layout.releases / lock.id
        if (slot / "release.json").exists():
            return
        if slot.exists():
            shutil.rmtree(slot)  # what an interrupted run left
        slot_contents.fill(slot, lock, self.layout.blobs, self.python())
        os.sync()  # uv does not see to that
        files.write_if_changed(slot / "release.json", record, Access(0o644))

    def remove(self, name: str, /) -> None:
        """Remove a slot; its ``release.json`` first, so that half of a slot never counts as complete."""
        slot = self.layout.releases / name
        with suppress(FileNotFoundError):
            (slot / "release.json").unlink()
        with suppress(FileNotFoundError):
            shutil.rmtree(slot)

    def forget_blobs(self, but: Iterable[Blob], /) -> None:
        """Remove all files of releases but these, and uploads that no release needed."""
        needed = {blob.sha256 for blob in but}
        for path in (*self.layout.blobs.glob("*"), *(self.layout.blobs / "incoming").glob("*")):
            if path.is_file() and (path.name not in needed or path.parent.name == "incoming"):
                path.unlink()

    def point(self, link: str, target: str, /) -> None:
        """Point a link beside ``current`` at a slot, in one step that survives a crash."""
        files.point(self.layout.releases.parent / link, f"releases/{target}")

    def rename(self, source: Path, target: Path, /) -> bool:
        """Rename a file over another, in one step that survives a crash; return whether the file existed."""
        try:
            _rename(source, target)
        except FileNotFoundError:
            return False
        return True


def _take_in(blob: Blob, came: Path, place: Path) -> None:
    with came.open("rb") as file:
        is_it = (
            os.fstat(file.fileno()).st_size == blob.size
            and hashlib.file_digest(file, "sha256").hexdigest() == blob.sha256
        )
        os.fsync(file.fileno())
    if not is_it:
        came.unlink()
        return
    came.chmod(0o600)
    _rename(came, place / blob.sha256)


def _rename(source: Path, target: Path) -> None:
    source.rename(target)
    files.sync(target.parent)
    files.sync(source.parent)


def _ssh_keygen(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return processes.run(("ssh-keygen", *words), timeout_s=30, stdin=stdin)
