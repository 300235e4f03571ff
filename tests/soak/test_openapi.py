"""As many made-up calls as it takes to believe that the server and its OpenAPI document say the same."""

from collections.abc import Iterator

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


@schema.parametrize()
@settings(max_examples=200, database=None, suppress_health_check=list(HealthCheck))
def test_every_call_answers_as_the_document_says(case: Case, target: Target) -> None:
    check(case, target)
