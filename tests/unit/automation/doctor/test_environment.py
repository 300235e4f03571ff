"""An environment that is in order, one that is silent, and one that refuses, hangs or breaks."""

import asyncio
import threading
import time

import pytest

from hermesops.automation.doctor import environment
from hermesops.automation.doctor.environment import check_all
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.check import Check, Verdict


async def _answers() -> str:
    return "3 machines"


async def test_what_answers_is_in_order() -> None:
    assert await check_all({"registry": _answers, "vendor": _answers}) == [
        Check("registry", Verdict.OK, "3 machines"),
        Check("vendor", Verdict.OK, "3 machines"),
    ]


@pytest.mark.parametrize(
    ("error", "verdict"),
    [(UnavailableError("silent", hint="wait"), Verdict.UNKNOWN), (RefusedError("no", hint="ask"), Verdict.FAILED)],
)
async def test_silence_is_unknown_and_a_refusal_a_failure(error: HermesError, verdict: Verdict) -> None:
    async def run() -> str:
        raise error

    assert await check_all({"registry": run}) == [Check("registry", verdict, error.message, error.hint)]


async def test_what_hangs_or_breaks_costs_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "WITHIN_S", 3.0)
    over = threading.Event()

    async def waits() -> str:
        await asyncio.Event().wait()
        return "never"

    async def blocks() -> str:
        over.wait(20)
        return "late"

    async def breaks() -> str:
        raise KeyError("shape")

    begun = time.monotonic()
    runs = {"waits": waits, "blocks": blocks, "stalls": blocks, "breaks": breaks, "vendor": _answers}
    try:
        checks = await check_all(runs)
    finally:
        over.set()
    assert time.monotonic() - begun < 15
    assert [(check.name, check.verdict) for check in checks] == [
        ("waits", Verdict.UNKNOWN),
        ("blocks", Verdict.UNKNOWN),
        ("stalls", Verdict.UNKNOWN),
        ("breaks", Verdict.FAILED),
        ("vendor", Verdict.OK),
    ]
    assert [check.seen for check in checks[:2]] == [
        f"{name} gives no answer within 3 s" for name in ("waits", "blocks")
    ]
