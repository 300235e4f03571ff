"""An environment that is in order, one that is silent, and one that refuses."""

import pytest

from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.check import Check, Verdict
from hermesops.verify.environment import check_environment


async def _answers() -> str:
    return "3 machines"


async def test_what_answers_is_in_order() -> None:
    assert await check_environment(lambda: "2 instances", _answers) == [
        Check("registry", Verdict.OK, "2 instances"),
        Check("vendor", Verdict.OK, "3 machines"),
    ]


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(UnavailableError("silent", hint="wait"), Verdict.UNKNOWN), (RefusedError("no", hint="ask"), Verdict.FAILED)],
)
async def test_silence_is_unknown_and_a_refusal_a_failure(error: HermesError, verdict: Verdict) -> None:
    def registry() -> str:
        raise error

    async def vendor() -> str:
        raise error

    assert await check_environment(registry, vendor) == [
        Check(name, verdict, error.message, error.hint) for name in ("registry", "vendor")
    ]
