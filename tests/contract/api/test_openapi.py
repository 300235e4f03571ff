"""schemathesis holds the users' API to its own description: made-up calls, good ones and bad ones, over HTTP."""

from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.schemas import BaseSchema

from tests.support.users.openapi_cases import Case, Target, check, target_in


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_in(tmp_path_factory.mktemp("users")) as target:
        yield target


@pytest.fixture(scope="module")
def described(target: Target) -> BaseSchema:
    return target.schema()


schema = schemathesis.pytest.from_fixture("described")


@pytest.mark.turns(35)
@schema.parametrize()
@settings(
    max_examples=4, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)  # more in tests/soak
def test_every_call_answers_as_the_description_says(case: Case, target: Target) -> None:
    check(case, target)


def test_the_api_still_knows_ada(target: Target) -> None:
    headers = {"authorization": f"Bearer {target.token}"}
    assert httpx.get(f"{target.url}/api/hermes/me", headers=headers, trust_env=False).status_code == 200
