import httpx
import pytest

from hermesops.vendor.justavps import Client, MachineOrder
from tests.support.vendor.listed_answers import Answer, Answers, json

URL = "https://vendor.invalid/api/v1/"


def _client(*answers: Answer) -> tuple[Client, Answers]:
    transport = Answers(*answers)
    return Client(URL, "sk_live_x", transport=transport), transport


async def test_the_key_is_sent_as_bearer() -> None:
    client, answers = _client(json(200, {"machines": []}))
    await client.list_machines()
    assert answers.requests[0].headers["authorization"] == "Bearer sk_live_x"
    assert str(answers.requests[0].url) == "https://vendor.invalid/api/v1/machines"


async def test_a_machine_is_found_by_its_exact_name() -> None:
    listed = {"machines": [{"id": "1", "name": "edge-1"}, {"id": "2", "name": "edge"}]}
    client, _ = _client(json(200, listed))
    machine = await client.find_machine("edge")
    assert machine is not None
    assert machine.id == "2"
    assert await client.find_machine("edg") is None


async def test_an_order_goes_out_once_and_in_the_vendors_words() -> None:
    client, answers = _client(json(200, {"machines": []}), json(202, {"id": "m1", "name": "edge"}))
    order = MachineOrder(name="edge", server_type="starter", region="hel1", image_id="i1", env_vars={"A": "b"})
    assert (await client.create_machine(order)).id == "m1"
    assert answers.asked == ["GET /api/v1/machines", "POST /api/v1/machines"]
    assert b'"image_id": "i1"' in answers.requests[1].content
    assert b'"env_vars": {"A": "b"}' in answers.requests[1].content


async def test_deleting_what_is_gone_is_success() -> None:
    client, answers = _client(httpx.Response(204), json(404, {"message": "not found"}))
    await client.delete_machine("m1")
    await client.delete_machine("m1")
    await client.delete_image("i1")
    await client.revoke_proxy_token("t1")
    assert answers.asked[-2:] == ["DELETE /api/v1/images/i1", "DELETE /api/v1/proxy-tokens/t1"]


@pytest.mark.parametrize("verb", ["start", "stop"])
async def test_power_is_a_post_without_a_body(verb: str) -> None:
    client, answers = _client(json(202, {"action": verb}))
    await getattr(client, f"{verb}_machine")("m1")
    assert answers.asked == [f"POST /api/v1/machines/m1/{verb}"]
    assert answers.requests[0].content == b""


async def test_a_resize_names_the_new_type() -> None:
    client, answers = _client(json(202, {}))
    await client.resize_machine("m1", server_type="basic")
    assert answers.requests[0].content == b'{"server_type": "basic"}'


async def test_images_are_listed_looked_at_and_saved() -> None:
    image = {"id": "i1", "name": "base", "status": "creating", "disk_size_gb": 80}
    client, answers = _client(json(200, {"images": [image]}), json(200, image), json(202, image))
    assert [listed.name for listed in await client.list_images()] == ["base"]
    assert (await client.get_image("i1")).disk_size_gb == 80
    assert not (await client.save_image("m1", name="base")).bootable
    assert answers.asked[-1] == "POST /api/v1/machines/m1/image"


async def test_no_images_may_be_null() -> None:
    client, _ = _client(json(200, {"images": None}))
    assert await client.list_images() == []


async def test_a_proxy_token_is_given_and_hidden() -> None:
    client, answers = _client(json(201, {"id": "t1", "token": "CANARY", "expires_at": "2026-03-01T10:00:00Z"}))
    token = await client.issue_proxy_token("m1", label="chat", lifetime_s=3600)
    assert token.token == "CANARY"  # noqa: S105 - as obviously fake as can be
    assert "CANARY" not in repr(token)
    assert answers.requests[0].content == b'{"machine_id": "m1", "label": "chat", "expires_in_seconds": 3600}'


async def test_server_types_are_asked_for_a_region() -> None:
    client, answers = _client(json(200, {"server_types": [{"name": "starter", "vcpu": 2, "available": False}]}))
    server_types = await client.list_server_types(region="hel1")
    assert [(server_type.name, server_type.available) for server_type in server_types] == [("starter", False)]
    assert dict(answers.requests[0].url.params) == {"provider": "cloud", "region": "hel1"}


async def test_the_account_is_named() -> None:
    client, _ = _client(json(200, {"id": "a1", "email": "sre@example.org", "machines_count": 3}))
    assert (await client.get_account()).machines_count == 3
