"""The OpenAPI document and the server's routes are one list of calls."""

import contextlib
import json
import re
from pathlib import Path

import pytest
from starlette.routing import Route

from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.localcloud.server import wiring
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.vendor_daemon.server import Config, Server
from tests.support.vendor.openapi.document import document
from tests.support.vendor.openapi.operations import OPERATIONS, TOOLBOX_OPERATIONS


def served(routes: list[Route]) -> set[tuple[str, str]]:
    calls = {(method, route.path) for route in routes for method in route.methods or () if method != "HEAD"}
    return {(method, path.replace("{call:path}", "*")) for method, path in calls}


def test_every_route_is_described_and_every_description_is_served(tmp_path: Path) -> None:
    with contextlib.closing(Store(tmp_path / "world.db")) as store:
        routes = served(wiring.vendor_routes(wiring._parts(store, SimDriver(tmp_path), ""), 0))
    forwarded = {call for call in routes if call[1].endswith("/*")}
    described = {(operation.method, operation.path) for operation in (*OPERATIONS, *TOOLBOX_OPERATIONS)}
    toolbox = {call for call in described if "/toolbox/" in call[1]}
    assert described - toolbox == routes - forwarded
    assert {method for method, _ in toolbox} <= {method for method, _ in forwarded}


def test_the_toolbox_is_described_as_the_daemon_has_it() -> None:
    daemon = Server(Config("127.0.0.1", 1, "127.0.0.1", ""))
    described = {
        (operation.method, operation.path.removeprefix("/machines/{machine_id}"))
        for operation in TOOLBOX_OPERATIONS
        if "/toolbox/" in operation.path
    }
    assert described == {call for call in daemon._routes if call[1].startswith("/toolbox/")}


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(document("http://127.0.0.1/api/v1"))
    generated = json.loads(text)
    for name in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert name in generated["components"]["schemas"]


@pytest.mark.parametrize("part", ["operationId", "summary"])
def test_every_call_has_a_name_of_its_own(part: str) -> None:
    openapi = document("http://127.0.0.1/api/v1")
    assert isinstance(openapi["paths"], dict)
    paths = [operation[part] for path in openapi["paths"].values() for operation in path.values()]
    assert all(paths)
    if part == "operationId":
        assert len(set(paths)) == len(paths)
