"""The ``Slots`` of hermes-node on a simulated machine: same guarantees as ``node.release.slots.disk``, over a ``Disk``.

Only releases of simulated agents run here. Their files are fetched, checked and kept as on a real machine, and
signatures are verified as there; a slot holds what hermes-node reads of one.
"""

import hashlib
import json
import re
import stat
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from hermesops.localcloud.drivers.sim.agent.release_faults import VARIABLE, ReleaseFault, release_faults_of
from hermesops.localcloud.drivers.sim.disk import PYTHON, Disk
from hermesops.localcloud.drivers.sim.store import Entry, Store
from hermesops.programs.node.ports import Trial, TrialResult
from hermesops.programs.node.release.slots import disk as real
from hermesops.programs.node.release.slots.slot import schema_of
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.wire.documents.lock import SIMULATED, Blob, Lock
from hermesops.wire.documents.signers import Kind
from hermesops.wire.errors import NotReadyError, RefusedError
from hermesops.wire.layout import UNIT, Layout
from hermesops.wire.protocol import Check

_LAYOUT = Layout()
_MEMORY_OF_SIGNATURES = 4096


class SimSlots:
    """The slots of one simulated machine."""

    def __init__(self, store: Store, machine_id: str, disk: Disk) -> None:
        self._store = store
        self._machine_id = machine_id
        self._disk = disk

    def python(self) -> str:
        return PYTHON

    def verify(self, data: bytes, signature: str, signers: str, kind: Kind) -> str:
        return _verified(data, signature, signers, kind)

    def missing(self, blobs: Iterable[Blob]) -> list[Blob]:
        lacking = []
        for blob in blobs:
            stored, came = str(_LAYOUT.blobs / blob.sha256), str(_LAYOUT.blobs / "incoming" / blob.sha256)
            entry = self._disk.entry(came)
            if entry is not None:
                self._disk.remove(came)
                if len(entry.data) == blob.size and hashlib.sha256(entry.data).hexdigest() == blob.sha256:
                    self._put(Path(stored), entry.data, 0o600)
            if self._disk.entry(stored) is None:
                lacking.append(blob)
        return lacking

    def download(self, blob: Blob, url: str, until: float) -> bool:
        """See ``node.release.slots.disk.download``; a simulated machine has no network."""
        del blob, url, until
        return False

    def names(self) -> list[str]:
        below = self._disk.below(str(_LAYOUT.releases))
        return sorted(Path(path).parent.name for path in below if path.endswith("/release.json"))

    def install(self, lock: Lock, record: bytes) -> None:
        slot = _LAYOUT.releases / lock.id
        if self._disk.entry(str(slot / "release.json")) is not None:
            return
        if lock.origin != SIMULATED:
            raise RefusedError(f"release {lock.id} is for real machines: this one is simulated")
        unit = self._disk.entry(str(_LAYOUT.blobs / lock.unit.sha256))
        if unit is None:
            raise NotReadyError(f"the unit of release {lock.id} was not fetched")
        with self._store.change():
            self._disk.put(str(slot), Entry(stat.S_IFDIR | 0o755, 0, 0, b""))
            self._put(slot / UNIT, unit.data, 0o644)
            self._put(slot / "release.json", record, 0o644)

    def remove(self, name: str) -> None:
        self._disk.remove(str(_LAYOUT.releases / name))

    def forget_blobs(self, but: Iterable[Blob]) -> None:
        needed = {str(_LAYOUT.blobs / blob.sha256) for blob in but}
        for path, entry in self._disk.below(str(_LAYOUT.blobs)).items():
            if stat.S_ISREG(entry.mode) and path not in needed:
                self._disk.remove(path)

    def point(self, link: str, target: str) -> None:
        entry = Entry(stat.S_IFLNK | 0o777, 0, 0, f"releases/{target}".encode())
        self._disk.put(str(_LAYOUT.releases.parent / link), entry)

    def rename(self, source: Path, target: Path) -> bool:
        entry = self._disk.entry(str(source))
        if entry is None:
            return False
        with self._store.change():
            self._disk.remove(str(source))
            self._disk.put(str(target), entry)
        return True

    def run_trial(self, trial: Trial) -> TrialResult:
        """See ``node.release.slots.disk.run_trial``: reports those faults of the release that a trial detects."""
        has = release_faults_of(_variable(trial.new.environment), self._machine_id, trial.new.slot.name)
        checks = (
            Check(
                "trial_start",
                ReleaseFault.TRIAL not in has,
                "the tried gateway ended" if ReleaseFault.TRIAL in has else "",
            ),
        )
        if ReleaseFault.MIGRATES in has:
            return TrialResult(checks, "copy", "the release before does not start on the changed copy", 0.1)
        return TrialResult(checks, seconds=0.1)

    def migrate(self, home: AgentHome, slot: Path, unit: str) -> None:
        """See ``node.release.slots.disk.migrate``: only the number of the schema changes."""
        del unit
        record, config = self._disk.entry(str(slot / "release.json")), self._disk.entry(str(home.path / "config.yaml"))
        if record is None or config is None:
            raise NotReadyError("the user's configuration cannot be brought to a newer form")
        schema = schema_of(json.loads(record.data))
        changed = re.sub(rb"(?m)^_config_version:.*$", b"", config.data) + f"\n_config_version: {schema}\n".encode()
        self._disk.put(str(home.path / "config.yaml"), replace(config, data=changed))

    def update_node(self, program: Blob) -> str:
        """See ``node.release.slots.disk.update_node``: this computer's hermes-node is always the one in use."""
        del program
        return ""

    def _put(self, path: Path, data: bytes, mode: int) -> None:
        self._disk.put(str(path), Entry(stat.S_IFREG | mode, 0, 0, data))


@lru_cache(maxsize=_MEMORY_OF_SIGNATURES)
def _verified(data: bytes, signature: str, signers: str, kind: Kind) -> str:
    """Verify a signature, once for all machines: a world has thousands."""
    return real.verify(data, signature, signers, kind)


def _variable(environment: bytes) -> str:
    pairs = (line.partition("=") for line in environment.decode().splitlines())
    return next((value.strip("'") for name, _, value in pairs if name == VARIABLE), "")
