"""schemathesis calls every route of both consoles with made-up values: each response is a page or a refusal."""

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.schemas import BaseSchema

from hermesops.console.topics import READERS
from tests.support.pages.console_calls import CONSOLES, STREAM, Case, Target, check, target_in


@pytest.fixture(scope="module", params=CONSOLES)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_in(tmp_path_factory.mktemp("console"), request.param) as target:
        yield target


@pytest.fixture(scope="module")
def routes(target: Target) -> BaseSchema:
    return target.schema(is_whole=False)


schema = schemathesis.pytest.from_fixture("routes")


@pytest.mark.turns(40)
@schema.parametrize()
@settings(
    max_examples=4, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)  # more in tests/soak
def test_every_call_is_answered_or_refused(case: Case, target: Target) -> None:
    check(case, target)


@pytest.mark.turns(10)
@settings(max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from([*READERS, "fleet", "alerts"]) | st.text(max_size=20), st.text(max_size=600), st.text(max_size=99)
)
def test_every_stream_begins_or_is_refused(target: Target, kind: str, name: str, digest: str) -> None:
    query = {"kind": kind, "name": name, "digest": digest}
    with httpx.stream(
        "GET", f"{target.url}{STREAM}", params=query, headers=dict(target.headers), trust_env=False
    ) as response:
        assert response.status_code in {200, 400, 422}, response.read()
