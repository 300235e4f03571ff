"""A rebuild of the registry that dies at any write goes on, and a registry that knows something loses none of it."""

from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.access.registry_place import RegistryPlace
from hermesops.agents.drift.lost_registry.rebuild import Rebuild
from hermesops.agents.drift.lost_registry.recovery import RegistryRebuild, RegistryState
from hermesops.errors import RefusedError, UsageError
from hermesops.model.ids import MachineId
from hermesops.model.recovery.record import RecoveryRecord, VolumeKey
from hermesops.settings.environment import Environment
from hermesops.store.registry.audit.log import AuditLog
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import recovered

pytestmark = pytest.mark.turns(6)

VOLUME = "5c0e0000-0000-4000-8000-00000000000{}"
LOST = Rebuild(
    tuple(replace(recovered(number), user_alias=f"user{number}") for number in range(3)),
    (),
    tuple(
        RecoveryRecord(
            recovered(number),
            f"password {number}",
            (VolumeKey(VOLUME.format(number), MachineId(f"m-{number}"), "key"),),
            (),
        )
        for number in range(3)
    ),
)


@pytest.fixture
def place(tmp_path: Path) -> RegistryPlace:
    environ = {"HERMESOPS_HOME": str(tmp_path / "home")}
    return RegistryPlace(Environment.load("local", environ), lambda *_, **__: None)


def rebuild_at(place: RegistryPlace) -> RegistryRebuild:
    return RegistryRebuild("local", place, part(), part(), part(), part(), lambda _: None)


def test_killed_at_any_write_the_same_rebuild_goes_on(place: RegistryPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.open().audit.append("command_run", "instance/1", why="before")
    assert place.file
    place.file.unlink()
    note, deaths = AuditLog.note, 0
    while True:
        # Each transaction of a rebuild writes an entry at its end.
        monkeypatch.setattr(AuditLog, "note", Death.after(deaths + 1).around(note))
        try:
            assert rebuild_at(place).state() is not RegistryState.WHOLE, f"killed {deaths} times"
            rebuild_at(place).apply(LOST, reason="lost")
        except KilledError:
            deaths += 1
            continue
        break
    assert deaths > 3
    registry = place.open()
    assert sorted(instance.title for instance in registry.instances.list()) == ["user0", "user1", "user2"]
    for number, lost in enumerate(LOST.instances):
        held = registry.backups.repository_keys(lost.id)
        assert held
        assert held.password == f"password {number}"
        volume = VOLUME.format(number)
        assert registry.data_keys.release(volume, lost.machine_id, lost.id, fresh="x" * 64) == "key"
    assert not registry.audit.check().findings
    registry.close()
    with pytest.raises(RefusedError, match="is intact"):
        rebuild_at(place).state()


def test_a_rebuild_over_a_whole_registry_adds_rows_and_touches_none(place: RegistryPlace) -> None:
    registry = place.open()
    registry.recovery.recover_instance(replace(recovered(0), user_alias="mine"), why="known")
    registry.backups.make_repository(recovered(0).id, "password 0")
    registry.users.resolve("user1", create=True)  # an alias is one user's
    epoch, entries = registry.epochs.now(), registry.audit.check().entries
    registry.close()
    with pytest.raises(RefusedError, match="is intact") as refused:
        rebuild_at(place).apply(LOST, reason="t")
    assert "hermesops registry rebuild --over local" in str(refused.value.hint)
    with pytest.raises(UsageError, match="another environment"):
        rebuild_at(place).state("production")
    for added in (2, 0):
        assert rebuild_at(place).apply(LOST, over="local", reason="t") == added
    registry = place.open()
    assert {instance.title for instance in registry.instances.list()} == {"mine", recovered(1).user_id, "user2"}
    assert registry.epochs.now() == epoch
    assert registry.audit.check().entries > entries
    registry.close()
    assert "before-rebuild" in {copy.reason for copy in place.copies.list()}
