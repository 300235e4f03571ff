"""schemathesis asks what the SDK describes, made-up calls with a caller's key, and none of them is a bug."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import httpx
import pytest
import schemathesis
from a2a.server.routes import add_a2a_routes_to_fastapi, create_jsonrpc_routes, create_rest_routes
from fastapi import FastAPI
from hypothesis import HealthCheck, settings
from schemathesis.schemas import BaseSchema

from tests.support.users.openapi_cases import Case, Target, target_in

if TYPE_CHECKING:
    from a2a.server.request_handlers.request_handler import RequestHandler


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_in(tmp_path_factory.mktemp("a2a")) as target:
        yield target


@pytest.fixture(scope="module")
def key(target: Target) -> str:
    body = {"name": "schemathesis", "client_key": "k", "push_hosts": ["example.com"], "may_approve": True}
    headers = {"authorization": f"Bearer {target.token}"}
    answer = httpx.post(f"{target.url}/api/hermes/callers", json=body, headers=headers, trust_env=False)
    return str(answer.json()["key"])


@pytest.fixture(scope="module")
def described(target: Target) -> BaseSchema:
    """The routes of the protocol as the SDK describes them, at ada's agent."""
    app, handler = FastAPI(), cast("RequestHandler", object())
    add_a2a_routes_to_fastapi(
        app, jsonrpc_routes=create_jsonrpc_routes(handler, "/"), rest_routes=create_rest_routes(handler)
    )
    schema = schemathesis.openapi.from_dict(app.openapi())
    schema.config.update(base_url=f"{target.url}/a2a/{target.api.ada.id}")
    return schema


schema = schemathesis.pytest.from_fixture("described")


@pytest.mark.turns(20)
@schema.parametrize()
@settings(max_examples=6, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def test_no_call_is_a_bug(case: Case, key: str) -> None:
    answer = case.call(headers={"authorization": f"Bearer {key}", "a2a-version": "1.0"}, timeout=100)
    assert answer.status_code < 500, answer.text
    assert "-32603" not in answer.text
    assert "it was recorded" not in answer.text
