"""A registry restored from before a change of a backup's key: the next backup takes a fresh key, by itself and once.

Real restic, real S3 and IAM; the machine's part is restic with what the machine is handed.
"""

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.backup.copies import Copies
from hermesops.agents.backup.proof.restore_check import Proof
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.backup.store.restic import Restic
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.errors import RefusedError
from hermesops.model.ids import MachineId
from hermesops.model.recovery.backup import Credential
from hermesops.store.registry import Registry
from hermesops.wire.state.restic_reason import KEY_REFUSED, reason_in
from tests.support.real.stores.object_store import ServedStore, served_store
from tests.support.real.stores.recovery_records import records_of
from tests.support.real.stores.registries import placed, registry_at
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(6)

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
MACHINE = MachineId("m-1")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStore]:
    require(shutil.which("restic"), "restic")
    with served_store(tmp_path_factory.mktemp("store") / "world") as up:
        yield up


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    opened = registry_at(f"sqlite:///{tmp_path}/registry.db")
    yield opened
    opened.close()


class Machine(PowerControl):
    """A machine that backs up with restic what it is told to; its words are hermes-node's."""

    def __init__(self) -> None:
        self.asked = 0
        self.always_refused = False

    async def hand(self, machine_id: MachineId, verb: str, payload: bytes, *, timeout_s: float) -> Mapping[str, Any]:
        assert (machine_id, bool(timeout_s)) == (MACHINE, True)
        self.asked += 1
        given = json.loads(payload)
        environment = {
            **PATH,
            "RESTIC_REPOSITORY": given["repository"],
            "RESTIC_PASSWORD": given["password"],
            "AWS_ACCESS_KEY_ID": "gone" if self.always_refused else given["access_key"],
            "AWS_SECRET_ACCESS_KEY": given["secret_key"],
        }
        words = ("backup", "--json", "--stdin", "--stdin-filename", "state.tar")
        done = await asyncio.to_thread(
            subprocess.run,
            ["restic", "--no-cache", "--quiet", *words],
            env=environment,
            input=os.urandom(16),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise RefusedError(f"hermes-node on machine m-1, {verb}: restic: {reason_in(done.stderr.decode())}")
        snapshot = json.loads(done.stdout.splitlines()[-1])["snapshot_id"]
        return {"snapshot": snapshot.ljust(64, "0"), "bytes": 16, "added": 16, "state": {}}


async def test_a_key_that_the_store_refuses_is_replaced_once(store: ServedStore, registry: Registry) -> None:
    platform, machine = store.platform, Machine()

    async def found() -> ObjectStore:
        return platform

    async def credential() -> Credential:
        return platform.credential()

    restic = Restic(PATH, credential)
    keys = Keys(registry, found, "test", restic.begin, records_of(registry, found))
    proof = Proof(registry, keys, restic, lambda _: None)
    copies = Copies(registry, keys, machine, lambda: datetime.now(UTC), proof)
    ada = placed(registry)
    await copies.make(ada, MACHINE, why="one")
    old = registry.backups.repository_keys(ada.id)
    assert old
    assert old.credential
    await keys.rotate(ada.id, why="leaked")
    registry.backups.keep_credential(ada.id, old.credential, why="an old copy of the registry was restored")

    machine.asked = 0
    await copies.make(ada, MACHINE, why="two")
    assert machine.asked == 2
    new = registry.backups.repository_keys(ada.id)
    assert new
    assert new.password == old.password
    assert new.credential != old.credential
    machine.asked = 0
    await copies.make(ada, MACHINE, why="three")
    assert machine.asked == 1

    machine.asked, machine.always_refused = 0, True
    with pytest.raises(RefusedError, match=KEY_REFUSED) as caught:
        await copies.make(ada, MACHINE, why="four")
    assert machine.asked == 2, "no endless change of keys"
    assert "hermesops env check" in str(caught.value.hint)
