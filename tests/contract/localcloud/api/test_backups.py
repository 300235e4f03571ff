"""The vendor's backups and its resize, as far as public evidence goes: asked for at once, brought about later."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud, serving

Json = dict[str, Any]


async def sized(cloud: LocalCloud, machine: Json, server_type: str) -> Json:
    async def check() -> Json | Pending[Json]:
        row: Json = (await cloud.http.get(f"/api/v1/machines/{machine['id']}")).json()
        return row if row["server_type"] == server_type else Pending(row["server_type"])

    return await until(check, what="the new size", timeout_s=10, every_s=0.01)


async def backed_up(cloud: LocalCloud, machine: Json, driver: PretendDriver) -> str:
    path = f"/api/v1/machines/{machine['id']}/backups"
    taken = await cloud.http.post(path, json={"description": "before update"})
    assert (taken.status_code, set(taken.json()), taken.json()["status"]) == (202, {"backup_id", "status"}, "creating")
    backup_id = str(taken.json()["backup_id"])

    async def copied() -> bool | Pending[bool]:
        return backup_id in driver.images or Pending("not yet")

    await until(copied, what="the copy", timeout_s=10, every_s=0.01)
    return backup_id


async def copied(cloud: LocalCloud, machine: Json) -> None:
    async def check() -> bool | Pending[bool]:
        (row,) = (await cloud.http.get(f"/api/v1/machines/{machine['id']}/backups")).json()["backups"]
        return row["status"] == "available" or Pending(row["status"])

    await until(check, what="the backup to be called available", timeout_s=10, every_s=0.01)


class TestBackups:
    async def test_one_is_of_use_while_it_is_still_called_creating(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        machine = await cloud.ready(enable_backups=True)
        assert machine["price_monthly"] == 12.0
        path = f"/api/v1/machines/{machine['id']}/backups"
        backup_id = await backed_up(cloud, machine, driver)
        backup_list = (await cloud.http.get(path)).json()
        assert backup_list["backups_enabled"] is True
        (backup,) = backup_list["backups"]
        assert backup.items() >= {"id": backup_id, "description": "before update", "status": "creating"}.items()

        async def restored() -> int | Pending[int]:
            answer = await cloud.http.post(f"{path}/{backup_id}/restore")
            return answer.status_code if answer.status_code != 409 else Pending(answer.text)

        assert await until(restored, what="the restore", timeout_s=10, every_s=0.01) == 202
        assert (await cloud.http.get(f"/api/v1/machines/{machine['id']}")).json()["status"] == "ready"
        await driver.until_called("restore")
        again = await cloud.becomes(machine["id"], "ready")
        assert (again["slug"], again["ip"], again["ssh_key"]) == (machine["slug"], machine["ip"], machine["ssh_key"])

        async def deleted() -> int | Pending[int]:  # refused while the restore is under way
            answer = await cloud.http.delete(f"{path}/{backup_id}")
            return answer.status_code if answer.status_code != 409 else Pending(answer.text)

        assert await until(deleted, what="the deletion", timeout_s=10, every_s=0.01) == 204
        assert (await cloud.http.get(path)).json()["backups"] == []
        assert driver.images == set()

    async def test_they_are_switched_on_and_off_and_off_deletes_them(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}/backups"
        assert (await cloud.http.post(path)).status_code == 400
        assert (await cloud.http.post(f"{path}/enable")).json()["status"] == "success"
        await backed_up(cloud, machine, driver)
        assert (await cloud.http.post(f"{path}/disable")).status_code == 200
        assert (await cloud.http.get(path)).json() == {"backups": [], "backups_enabled": False}
        assert driver.images == set()

    async def test_there_are_seven_and_they_end_with_their_machine(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        machine = await cloud.ready(enable_backups=True)
        path = f"/api/v1/machines/{machine['id']}/backups"
        ids = [await backed_up(cloud, machine, driver) for _ in range(8)]

        async def seven() -> list[str] | Pending[list[str]]:
            left = [row["id"] for row in (await cloud.http.get(path)).json()["backups"]]
            return left if len(left) == 7 else Pending(str(left))

        assert await until(seven, what="seven backups", timeout_s=10, every_s=0.01) == ids[1:]
        await cloud.http.delete(f"/api/v1/machines/{machine['id']}")
        assert driver.images == set()

    async def test_nobody_elses_backup_is_touched(self, cloud: LocalCloud, driver: PretendDriver) -> None:
        first, two = await cloud.ready("one", enable_backups=True), await cloud.ready("two", enable_backups=True)
        backup_id = await backed_up(cloud, first, driver)
        foreign = f"/api/v1/machines/{two['id']}/backups/{backup_id}"
        assert (await cloud.http.post(f"{foreign}/restore")).status_code == 404
        assert (await cloud.http.delete(foreign)).status_code == 404
        assert backup_id in driver.images

    async def test_a_restore_begun_is_finished_by_the_next_server(self, tmp_path: Path, driver: PretendDriver) -> None:
        async with serving(tmp_path / "world", driver) as before:
            machine = await before.ready(enable_backups=True)
            backup_id = await backed_up(before, machine, driver)
        # As if it had died between writing the request down and acting on it.
        with sqlite3.connect(tmp_path / "world" / "world.db") as database:
            database.execute("UPDATE machines SET restore = ?", (backup_id,))
        async with serving(tmp_path / "world", driver) as after:
            await driver.until_called("restore")
            await after.becomes(machine["id"], "ready")

    async def test_one_that_fails_is_told(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready(enable_backups=True)
        await cloud.fault("backup-fails", machine="edge")
        path = f"/api/v1/machines/{machine['id']}/backups"
        await cloud.http.post(path)
        (backup,) = (await cloud.http.get(path)).json()["backups"]
        assert backup["status"] == "unavailable"
        assert (await cloud.http.post(f"{path}/{backup['id']}/restore")).status_code == 409


class TestResize:
    async def test_it_is_accepted_under_the_old_status_and_reboots_into_the_new_size(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        machine = await cloud.ready()
        answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/resize", json={"server_type": "basic"})
        assert answer.status_code == 202
        assert answer.json() == {"action": "resize", "old_type": "starter", "new_type": "basic", "status": "ready"}
        await sized(cloud, machine, "basic")
        assert "resize 4 8192 160" in driver.calls
        assert driver.machines[machine["id"]].boots == 2
        assert (await cloud.becomes(machine["id"], "ready"))["price_monthly"] == 17.5

    async def test_a_stopped_machine_stays_stopped(self, cloud: LocalCloud, driver: PretendDriver) -> None:
        machine = await cloud.ready()
        await cloud.http.post(f"/api/v1/machines/{machine['id']}/stop")
        await cloud.becomes(machine["id"], "stopped")
        await cloud.http.post(f"/api/v1/machines/{machine['id']}/resize", json={"server_type": "basic"})
        assert (await sized(cloud, machine, "basic"))["status"] == "stopped"
        assert driver.machines[machine["id"]].boots == 1

    @pytest.mark.parametrize("body", [{}, {"server_type": "basic"}, {"server_type": "starter"}, {"server_type": "cx23"},
                                      {"server_type": 4}])  # fmt: skip
    async def test_what_cannot_be_is_refused(self, cloud: LocalCloud, driver: PretendDriver, body: Json) -> None:
        machine = await cloud.ready(server_type="basic")
        answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/resize", json=body)
        assert answer.status_code == 400, answer.text
        assert not [call for call in driver.calls if call.startswith("resize")]

    async def test_one_cut_short_is_finished_and_the_machine_runs_again(
        self, tmp_path: Path, driver: PretendDriver
    ) -> None:
        async with serving(tmp_path / "world", driver) as before:
            machine = await before.ready()
            driver.resize_gate = asyncio.Event()
            await before.http.post(f"/api/v1/machines/{machine['id']}/resize", json={"server_type": "basic"})
            await driver.until_called("resize 4 8192 160")
        driver.resize_gate = None
        async with serving(tmp_path / "world", driver) as after:
            assert (await sized(after, machine, "basic"))["id"] == machine["id"]
            await after.becomes(machine["id"], "ready")

    async def test_a_restore_ordered_meanwhile_comes_after_it(self, cloud: LocalCloud, driver: PretendDriver) -> None:
        machine = await cloud.ready(enable_backups=True)
        path = f"/api/v1/machines/{machine['id']}"
        backup_id = await backed_up(cloud, machine, driver)
        await copied(cloud, machine)
        driver.resize_gate = asyncio.Event()
        await cloud.http.post(f"{path}/resize", json={"server_type": "basic"})
        await driver.until_called("resize 4 8192 160")
        assert (await cloud.http.post(f"{path}/backups/{backup_id}/restore")).status_code == 202
        driver.resize_gate.set()
        await driver.until_called("restore")
        await sized(cloud, machine, "basic")
        await cloud.becomes(machine["id"], "ready")
