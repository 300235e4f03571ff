"""Thousands of made-up calls to every route of both consoles, with each limit of each parameter: pages or refusals."""

from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from rich.console import Console
from schemathesis.schemas import BaseSchema

from tests.support.pages.console_calls import CONSOLES, Case, Target, check, target_in

LEAST = 5_000
EACH = 60
"""Of a route, beside its limits."""

pytestmark = pytest.mark.timeout(2 * 3600)


@pytest.fixture(scope="module", params=CONSOLES)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with target_in(tmp_path_factory.mktemp("console"), request.param) as target:
        yield target


@pytest.fixture(scope="module")
def routes(target: Target) -> BaseSchema:
    return target.schema(is_whole=True)


schema = schemathesis.pytest.from_fixture("routes")
_calls: list[str] = []


@schema.parametrize()
@settings(max_examples=EACH, database=None, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_call_is_answered_or_refused(case: Case, target: Target) -> None:
    _calls.append(case.path)
    check(case, target)


def test_so_many_were_made() -> None:
    Console().print(f"{len(_calls)} calls of {len(set(_calls))} routes")
    assert len(_calls) >= LEAST
