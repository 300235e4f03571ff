"""schemathesis holds the server to an OpenAPI document: made-up calls, good ones and bad ones, over HTTP."""

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.schemas import BaseSchema

from tests.support.vendor.openapi.cases import TOOLBOX, Case, Target, check, target_in


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_in(tmp_path_factory.mktemp("openapi")) as target:
        yield target


@pytest.fixture(scope="module")
def api(target: Target) -> BaseSchema:
    return target.schema()


schema = schemathesis.pytest.from_fixture("api").exclude(path_regex=TOOLBOX)


@pytest.mark.turns(15)
@schema.parametrize()
@settings(
    max_examples=4, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)  # more in tests/soak
def test_every_call_answers_as_the_document_says(case: Case, target: Target) -> None:
    check(case, target)


def test_no_machine_was_lost_on_the_way(target: Target) -> None:
    path = f"{target.url}/machines/{target.machine_id}"
    assert httpx.get(path, headers=target.world.headers, trust_env=False).status_code == 200
