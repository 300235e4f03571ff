"""Faults of the vendor that may strike any call, one of a machine, or an order: each ordered, each seen."""

import asyncio
from typing import Any

import httpx
import pytest

from hermesops.base.waiting import Pending, until
from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud

Json = dict[str, Any]
ORDER = {"server_type": "starter", "region": "hel1", "name": "edge"}


async def names(cloud: LocalCloud) -> list[str]:
    return [machine["name"] for machine in (await cloud.http.get("/api/v1/machines")).json()["machines"]]


class TestAnyCall:
    async def test_the_edge_answers_html_before_or_after_the_deed(self, cloud: LocalCloud) -> None:
        await cloud.fault("edge-error", method="POST", path="/machines")
        await cloud.fault("edge-error-but-done", method="POST", path="/machines", status=504)
        for status, then in ((502, []), (504, ["edge"])):
            answer = await cloud.http.post("/api/v1/machines", json=ORDER)
            assert (answer.status_code, answer.headers["content-type"][:9]) == (status, "text/html")
            assert answer.headers["cf-ray"]
            assert await names(cloud) == then

    async def test_too_many_requests_say_when_to_come_back(self, cloud: LocalCloud) -> None:
        await cloud.fault("rate-limited", seconds=3, path="/account")
        answer = await cloud.http.get("/api/v1/account")
        assert (answer.status_code, answer.headers["retry-after"], answer.json()["error"]) == (429, "3", True)
        assert (await cloud.http.get("/api/v1/account")).status_code == 200

    async def test_a_good_key_is_refused(self, cloud: LocalCloud) -> None:
        await cloud.fault("key-refused")
        assert [(await cloud.http.get("/api/v1/account")).status_code for _ in range(2)] == [401, 200]

    async def test_a_slow_answer_comes_after_the_deed(self, cloud: LocalCloud) -> None:
        await cloud.fault("slow-answer", seconds=20, method="POST")
        with pytest.raises(httpx.ReadTimeout):
            await cloud.http.post("/api/v1/machines", json=ORDER, timeout=0.5)
        assert await names(cloud) == ["edge"]

    async def test_now_and_then_is_repeatable(self, cloud: LocalCloud) -> None:
        async def struck() -> list[int]:
            await cloud.http.delete("/local/faults")
            await cloud.fault("server-error", probability=0.5, seed=3, path="/account")
            return [(await cloud.http.get("/api/v1/account")).status_code for _ in range(20)]

        first = await struck()
        assert set(first) == {200, 500}
        assert first == await struck()
        (rule,) = (await cloud.http.get("/local/faults")).json()["faults"]
        assert (rule["probability"], rule["seed"], rule["draws"], rule["times"]) == (0.5, 3, 20, 0)

    async def test_for_a_while(self, cloud: LocalCloud) -> None:
        await cloud.fault("server-error", for_s=1, path="/account")

        async def over() -> bool | Pending[bool]:
            return (await cloud.http.get("/api/v1/account")).status_code == 200 or Pending("still")

        assert (await cloud.http.get("/api/v1/account")).status_code == 500
        assert await until(over, what="the end of it", timeout_s=10, every_s=0.1)
        assert (await cloud.http.get("/local/faults")).json() == {"faults": []}


class TestMachines:
    async def test_the_list_is_the_one_of_before(self, cloud: LocalCloud) -> None:
        await cloud.order("old")
        new = await cloud.order("new")
        await cloud.fault("stale-list", times=2)
        assert [await names(cloud) for _ in range(3)] == [["old"], ["old"], ["old", "new"]]
        await cloud.http.delete(f"/api/v1/machines/{new['id']}")
        await cloud.fault("stale-list")
        assert [await names(cloud) for _ in range(2)] == [["old", "new"], ["old"]]

    async def test_what_is_said_of_a_machine_is_old_or_of_an_older_shape(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}"
        await cloud.http.post(f"{path}/stop")
        await cloud.becomes(machine["id"], "stopped")
        await cloud.fault("stale-status", machine="edge")
        assert [(await cloud.http.get(path)).json()["status"] for _ in range(2)] == ["ready", "stopped"]
        await cloud.fault("older-shape", machine="edge")
        older = (await cloud.http.get(path)).json()
        assert isinstance(older["ssh"], str)
        assert set(older["urls"]) == {"vscode", "pty"}
        assert "health" not in older

    async def test_an_action_is_refused_as_busy_or_accepted_and_forgotten(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}"
        await cloud.fault("busy", machine=machine["slug"], path="/machines/*/reboot")
        await cloud.fault("accepted-and-ignored", machine="edge", path="/machines/*/reboot")
        assert (await cloud.http.post(f"{path}/stop")).status_code == 202
        await cloud.becomes(machine["id"], "stopped")
        await cloud.http.post(f"{path}/start")
        await cloud.becomes(machine["id"], "ready")
        assert [(await cloud.http.post(f"{path}/reboot")).status_code for _ in range(2)] == [409, 202]
        assert "reboot" not in driver.calls
        await cloud.http.post(f"{path}/reboot")

        async def rebooted() -> bool | Pending[bool]:
            return "reboot" in driver.calls or Pending("not yet")

        await until(rebooted, what="the third", timeout_s=10, every_s=0.01)

    async def test_an_image_fails_or_is_called_ready_too_early(self, cloud: LocalCloud) -> None:
        machine = await cloud.ready()
        path = f"/api/v1/machines/{machine['id']}/image"
        await cloud.fault("image-fails", machine="edge")
        failed = await cloud.image_ends((await cloud.http.post(path, json={"name": "x"})).json()["id"])
        assert (failed["status"], bool(failed["description"])) == ("failed", True)
        await cloud.fault("image-ready-too-early", seconds=1)
        early = await cloud.image_ends((await cloud.http.post(path, json={"name": "y"})).json()["id"])
        assert (early["status"], early["provider_image_id"]) == ("ready", None)
        assert (await cloud.http.post("/api/v1/machines", json={**ORDER, "image_id": early["id"]})).status_code == 422

        async def finished() -> bool | Pending[bool]:
            shown: Json = (await cloud.http.get(f"/api/v1/images/{early['id']}")).json()
            return bool(shown["provider_image_id"]) or Pending("not yet")

        assert await until(finished, what="the image", timeout_s=10, every_s=0.05)


class TestOrders:
    @pytest.mark.parametrize(
        ("kind", "message"), [("location-disabled", "server location disabled"), ("sold-out", "not available")]
    )
    async def test_an_order_is_refused_once(self, cloud: LocalCloud, kind: str, message: str) -> None:
        await cloud.fault(kind, machine="edge")
        if kind == "sold-out":
            sold = (await cloud.http.get("/api/v1/server-types?region=hel1")).json()["server_types"]
            assert not any(size["available"] for size in sold)
        refused = await cloud.http.post("/api/v1/machines", json=ORDER)
        assert refused.status_code == 422
        assert message in refused.json()["message"]
        await cloud.order()


async def test_two_faults_of_a_kind_are_two_rules(cloud: LocalCloud) -> None:
    await asyncio.gather(*(cloud.fault("server-error", path="/account", status=status) for status in (500, 503)))
    statuses = [(await cloud.http.get("/api/v1/account")).status_code for _ in range(3)]
    assert (set(statuses[:2]), statuses[2]) == ({500, 503}, 200)


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "rate-limited", "seconds": 0},
        {"kind": "edge-error", "status": 404},
        {"kind": "proxy-unauthorised", "status": 500},
        {"kind": "lost-answer", "probability": 0},
        {"kind": "lost-answer", "probability": "often"},
        {"kind": "lost-answer", "for_s": -1},
        {"kind": "lost-answer", "seed": "x"},
    ],
)
async def test_an_impossible_fault_is_refused(cloud: LocalCloud, body: Json) -> None:
    answer = await cloud.http.post("/local/faults", json=body)
    assert (answer.status_code, answer.json()["error"]) == (400, True)
