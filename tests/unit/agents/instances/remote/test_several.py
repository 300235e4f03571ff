"""Work on several machines at once: each by itself."""

import asyncio
from dataclasses import replace

import pytest

from hermesops.agents.instances.remote import several
from hermesops.agents.instances.remote.several import Outcome, on_each
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId
from tests.support.fakes.instances import ADA

BEN, CLEO = (replace(ADA, id=InstanceId(name), user_alias=name) for name in ("ben", "cleo"))


async def work(instance: Instance) -> str:
    if instance is BEN:
        raise RefusedError("ben is suspended")
    if instance is CLEO:
        raise LookupError("a bug")
    return instance.title


async def test_one_that_fails_spoils_no_other() -> None:
    ada, ben, cleo = await on_each([ADA, BEN, CLEO], work, within_s=30)
    assert ada == Outcome(ADA, "ada")
    assert isinstance(ben.result, RefusedError)
    assert isinstance(cleo.result, HermesError)
    assert cleo.result.message == "a bug: LookupError: a bug"


async def test_one_that_hangs_is_given_up_and_delays_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "_MARGIN_S", 0.01)
    monkeypatch.setattr(several, "_SLOW_AFTER_S", 0.01)
    monkeypatch.setattr(several, "_AT_ONCE", 1)
    never, order = asyncio.Event(), list[str]()

    async def hangs(instance: Instance) -> str:
        if instance is ADA:
            await never.wait()
        return instance.title

    outcomes = await on_each(
        [ADA, BEN, CLEO], hangs, within_s=0.2, ended=lambda outcome: order.append(outcome.instance.title)
    )
    assert order == ["ben", "cleo", "ada"]
    assert [outcome.instance for outcome in outcomes] == [ADA, BEN, CLEO]
    assert isinstance(outcomes[0].result, UnavailableError)
    assert [outcome.result for outcome in outcomes[1:]] == ["ben", "cleo"]
