"""Ten thousand made-up calls to the users' API, as ada: each answers as the API's own description says."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from rich.console import Console
from schemathesis.schemas import BaseSchema

from tests.support.users.openapi_cases import Case, Target, check, target_in

LEAST = 10_000
EACH = 420
"""Of an operation, of which there are 24 or more."""

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_in(tmp_path_factory.mktemp("users")) as target:
        yield target


@pytest.fixture(scope="module")
def described(target: Target) -> BaseSchema:
    return target.schema()


schema = schemathesis.pytest.from_fixture("described")
_calls: list[str] = []


@schema.parametrize()
@settings(max_examples=EACH, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_call_answers_as_the_description_says(case: Case, target: Target) -> None:
    _calls.append(case.path)
    check(case, target)


def test_so_many_were_made() -> None:
    Console().print(f"{len(_calls)} calls of {len(set(_calls))} paths")
    assert len(_calls) >= LEAST
