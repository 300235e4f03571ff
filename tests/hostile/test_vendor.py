"""A vendor that somebody else has taken over: whatever it answers, nothing is done to what was not meant.

No request with the API key goes anywhere else, no path leads out of its place, and every call ends with our error.
"""

import time
from collections.abc import Awaitable, Callable

import httpx
import pytest

from hermesops.agents.drift.fleet_snapshot import Rented
from hermesops.errors import HermesError
from hermesops.vendor.justavps import Client, MachineOrder
from tests.support.fleets.in_memory import ordered
from tests.support.hostile.vendor_answers import ANSWERS, OURS, THEIRS, machine
from tests.support.suite.cases import each_case

API = "https://vendor.example/api/v1"
KEY = "sk_canary"
ORDER = MachineOrder(name=OURS, server_type="starter", region="hel1")

CALLS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "list": lambda client: client.list_machines(),
    "find": lambda client: client.find_machine(OURS),
    "get": lambda client: client.get_machine("m-1"),
    "order": lambda client: client.post_order(ORDER),
    "images": lambda client: client.list_images(),
    "image": lambda client: client.get_image("m-1"),
    "token": lambda client: client.issue_proxy_token("m-1", label="platform", lifetime_s=60),
    "types": lambda client: client.list_server_types(region="hel1"),
    "account": lambda client: client.get_account(),
    "usage": lambda client: client.get_usage(),
    "delete": lambda client: client.delete_machine("m-1"),
    "download": lambda client: client.toolbox.download("m-1", "/etc/hermes"),
}


class Vendor(httpx.AsyncBaseTransport):
    """Answers everything alike, and keeps what was asked."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.asked: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        kept = self.answer
        return httpx.Response(kept.status_code, headers=kept.headers, content=kept.content)


async def outcome(call: Awaitable[object]) -> tuple[object, str]:
    """What a call gave, or what our error says."""
    try:
        return await call, ""
    except HermesError as error:
        return None, f"{error.message} {error.hint}"


@pytest.mark.turns(60)
@each_case("mood", ANSWERS)
@each_case("call", CALLS)
async def test_a_call_ends_with_what_was_asked_for_or_with_our_error(call: str, mood: str) -> None:
    vendor, began = Vendor(ANSWERS[mood]()), time.process_time()
    async with Client(API, KEY, transport=vendor) as client:
        value, output = await outcome(CALLS[call](client))
    assert output.isprintable()
    assert KEY not in output
    assert time.process_time() - began < 20
    assert {(request.url.scheme, request.url.host) for request in vendor.asked} == {("https", "vendor.example")}
    assert all(request.url.path.startswith("/api/v1/") for request in vendor.asked)
    if call == "get":
        assert value is None or getattr(value, "id", "") == "m-1", "another machine would be worked on"
    if call == "order":
        assert value is None or getattr(value, "name", "") == OURS, "another machine would be ours"
    if call == "find":
        assert value is None or getattr(value, "name", "") == OURS


@each_case(
    "bad",
    [
        "",
        "../account",
        "m-1/../m-2",
        "m-1?x=1",
        "m-1#x",
        "m 1",
        "m-1\n",
        "$(id)",
        "-rf",
        "m" * 200,
        "\u202em-1",
        None,
        7,
    ],
)
async def test_an_id_that_leads_elsewhere_is_no_id(bad: object) -> None:
    vendor = Vendor(httpx.Response(200, json={"machines": [machine(id=bad)]}))
    async with Client(API, KEY, transport=vendor) as client:
        with pytest.raises(HermesError, match="of an unknown form"):
            await client.list_machines()


@each_case("body", [{}, {"error": True}, {"machines": {}}, {"machines": "none"}, "none", 7, True])
async def test_no_list_is_not_an_empty_list(body: object) -> None:
    """Who believed that there are no machines would order all of them anew."""
    vendor = Vendor(httpx.Response(200, json=body))
    async with Client(API, KEY, transport=vendor) as client:
        with pytest.raises(HermesError, match="no list of machines"):
            await client.list_machines()


async def test_a_price_below_nothing_makes_no_room_in_a_budget() -> None:
    vendor = Vendor(httpx.Response(200, json={"machines": [machine(price_monthly=-1e9), machine(price_monthly=5)]}))
    async with Client(API, KEY, transport=vendor) as client:
        assert [machine.price_monthly for machine in await client.list_machines()] == [None, 5]


async def test_machines_whose_names_are_not_ours_are_no_orphans_and_those_of_rows_neither() -> None:
    """Only an orphan can be destroyed by name."""
    row = ordered(0)
    documents = [
        machine(id="m-2", name=THEIRS),
        machine(id="m-3", name=f"{OURS}\n"),
        machine(id="m-4", name=f"x{OURS}"),
        machine(id="m-5", name=OURS.replace("local", "production")),
        machine(id="m-6", name=f"{OURS}/../x"),
        machine(id=row.instance.machine_id, name=row.instance.machine_name),
    ]
    vendor = Vendor(httpx.Response(200, json={"machines": documents}))
    async with Client(API, KEY, transport=vendor) as client:
        rented = Rented(await client.list_machines())
    assert rented.orphans([row], (), "local") == []
