"""Keys of the account: who gets into the API, and who into machines."""

import json

import httpx
import pytest

from hermesops.localcloud.api.keys import new_key_pair
from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud


async def status_with(cloud: LocalCloud, key: str) -> int:
    async with httpx.AsyncClient(
        base_url=cloud.where.api_url, headers={"Authorization": f"Bearer {key}"}, trust_env=False
    ) as http:
        return (await http.get("/api/v1/machines")).status_code


class TestApiKeys:
    async def test_a_key_opens_the_api_until_it_is_deleted(self, cloud: LocalCloud) -> None:
        created = (await cloud.http.post("/api/v1/api-keys", json={"name": "ci"})).json()
        assert created["key"].startswith(created["key_prefix"])
        assert await status_with(cloud, created["key"]) == 200
        listed = (await cloud.http.get("/api/v1/api-keys")).json()["api_keys"]
        assert [key["name"] for key in listed] == ["local world", "ci"]
        assert listed[1]["last_used"]
        assert all("key" not in key for key in listed)
        for file in cloud.folder.iterdir():
            assert created["key"].encode() not in file.read_bytes(), file
        assert (await cloud.http.delete(f"/api/v1/api-keys/{created['id']}")).status_code == 204
        assert await status_with(cloud, created["key"]) == 401
        assert (await cloud.http.delete(f"/api/v1/api-keys/{created['id']}")).status_code == 404

    async def test_the_worlds_own_key_stays(self, cloud: LocalCloud) -> None:
        (own,) = (await cloud.http.get("/api/v1/api-keys")).json()["api_keys"]
        assert (await cloud.http.delete(f"/api/v1/api-keys/{own['id']}")).status_code == 403
        assert (await cloud.http.get("/api/v1/machines")).status_code == 200

    async def test_a_key_needs_a_name(self, cloud: LocalCloud) -> None:
        assert (await cloud.http.post("/api/v1/api-keys", json={})).status_code == 400


class TestSshKeys:
    async def test_a_machine_is_ordered_with_keys_and_keeps_them(
        self, cloud: LocalCloud, driver: PretendDriver
    ) -> None:
        _, public = new_key_pair("operator@desk")
        response = await cloud.http.post("/api/v1/ssh-keys", json={"name": "desk", "public_key": f"{public}\n"})
        assert (response.status_code, set(response.json())) == (201, {"id", "name", "fingerprint", "created_at"})
        assert response.json()["fingerprint"].startswith("SHA256:")
        assert (await cloud.http.get("/api/v1/ssh-keys")).json()["ssh_keys"] == [response.json()]
        machine = await cloud.ready(ssh_key_ids=[response.json()["id"]])
        authorized = driver.machines[machine["id"]].plan.files["/root/.ssh/authorized_keys"].decode()
        assert authorized.splitlines() == [machine["ssh_key"]["public_key"], public]
        assert (await cloud.http.delete(f"/api/v1/ssh-keys/{response.json()['id']}")).status_code == 204
        assert (await cloud.http.get("/api/v1/ssh-keys")).json() == {"ssh_keys": []}

    @pytest.mark.parametrize("public_key", ["", "rubbish", "ssh-ed25519 AAAA", "ssh-ed25519"])
    async def test_what_is_no_key_is_refused(self, cloud: LocalCloud, public_key: str) -> None:
        answer = await cloud.http.post("/api/v1/ssh-keys", json={"name": "x", "public_key": public_key})
        assert (answer.status_code, answer.json()["error"]) == (400, True)

    @pytest.mark.parametrize(
        ("ids", "status"), [(["nonsense"], 400), (7, 400), (["00000000-0000-4000-8000-000000000000"], 404)]
    )
    async def test_an_order_with_a_key_that_is_not_there_is_refused(
        self, cloud: LocalCloud, ids: object, status: int
    ) -> None:
        body = {"server_type": "starter", "region": "hel1", "name": "x", "ssh_key_ids": ids}
        assert (await cloud.http.post("/api/v1/machines", content=json.dumps(body))).status_code == status
        assert (await cloud.http.get("/api/v1/machines")).json() == {"machines": []}


class TestBilling:
    async def test_a_bill_can_be_looked_at_and_set_up(self, cloud: LocalCloud) -> None:
        assert (await cloud.http.get("/api/v1/account/billing")).json()["has_payment_method"] is True
        await cloud.fault("payment-required")
        assert (await cloud.http.get("/api/v1/account/billing")).json()["has_payment_method"] is False
        assert "checkout_url" in (await cloud.http.post("/api/v1/account/billing/setup")).json()

    async def test_backups_cost_a_fifth_more(self, cloud: LocalCloud) -> None:
        await cloud.order(enable_backups=True)
        assert (await cloud.http.get("/api/v1/account/usage")).json()["current_period"]["estimated_cost"] == 12.0
