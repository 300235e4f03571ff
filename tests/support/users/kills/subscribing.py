"""A user who buys a plan, gets an agent, ends the plan, and begins anew."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, until
from tests.support.users.kills.asking import Asking, RefusedError

_PATIENCE_S = 900.0
_LOOK_S = 1.0


@dataclass
class Purchase:
    """A plan that a user bought and ended.

    Attributes:
        began: Seconds of a clock that never goes back, as ``ended``, which is 0 until the end.
        session: The checkout session's id; empty until there was one.
        instance: The agent's id; empty until there was one.
        step: What the user waits for, or did last.
        wrong: What must not be.
    """

    key: str
    plan: str
    began: float
    ended: float = 0.0
    session: str = ""
    is_paid: bool = False
    instance: str = ""
    step: str = "subscribe"
    wrong: list[str] = field(default_factory=list)


@dataclass
class Subscribing:
    """A user who subscribes.

    Attributes:
        name: Unique among users: keys begin with it.
        purchases: All that were begun.
    """

    name: str
    asking: Asking
    purchases: list[Purchase] = field(default_factory=list)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Buy and end plans until it is over; the last one is ended, too."""
        while not is_over():
            key = f"{self.name}-{len(self.purchases)}"
            plan = self.asking.chance.choice(("light", "heavy"))
            purchase = Purchase(key, plan, time.monotonic())
            self.purchases.append(purchase)
            try:
                await self._buy(purchase)
                await self._end(purchase)
            except (RefusedError, TimeoutError) as error:
                purchase.wrong.append(f"{purchase.step}: {error}")
                return
            except Exception as error:  # noqa: BLE001 - what broke this user is part of the report
                purchase.wrong.append(f"{purchase.step}: {type(error).__name__}: {error}")
                return
            purchase.ended = time.monotonic()

    async def _buy(self, purchase: Purchase) -> None:
        body = {"plan": purchase.plan, "client_key": f"{purchase.key}-buy"}
        request = (await self.asking.ask("POST", "/subscribe", body))["request"]
        url = await self._page(purchase, request, "checkout page")
        purchase.session, purchase.step = url.rpartition("/")[2], "pay"
        await _press(url, "pay")
        purchase.is_paid, purchase.step = True, "agent"
        await self._until(purchase, self._runs, "its agent runs")
        answer = await self.asking.ask("GET", "/instance")
        purchase.instance = answer["id"]
        if answer["plan"] != purchase.plan:
            purchase.wrong.append(f"the agent has plan {answer['plan']}")

    async def _end(self, purchase: Purchase) -> None:
        purchase.step = "cancel"
        ending = await self.asking.ask("POST", "/plan/cancel", {"client_key": f"{purchase.key}-end"})
        await self._until(purchase, lambda: self._done(ending["request"]), "the plan ends")
        purchase.step = "portal"
        portal = await self.asking.ask("POST", "/plan/portal", {"client_key": f"{purchase.key}-portal"})
        url = await self._page(purchase, portal["request"], "portal")
        await _press(url, "end")  # the period is over
        purchase.step = "end"
        await self._until(purchase, self._is_gone, "its agent is gone")

    async def _page(self, purchase: Purchase, request: str, what: str) -> str:
        async def check() -> str | Pending[str]:
            answer = await self.asking.ask("GET", f"/requests/{request}")
            if answer["state"] == "refused":
                raise RefusedError(what, 0, answer["code"], answer["detail"])
            return answer["url"] or Pending(f"{answer['state']} {answer['detail']}")

        purchase.step = what
        return await until(check, what=what, timeout_s=_PATIENCE_S, every_s=_LOOK_S)

    async def _until(self, purchase: Purchase, check: Callable[[], Any], what: str) -> None:
        purchase.step = what
        await until(check, what=what, timeout_s=_PATIENCE_S, every_s=_LOOK_S)

    async def _runs(self) -> bool | Pending[bool]:
        status = await self._status()
        return True if status == "running" else Pending(status)

    async def _is_gone(self) -> bool | Pending[bool]:
        status = await self._status()
        return True if status == "none" else Pending(status)

    async def _status(self) -> str:
        try:
            return str((await self.asking.ask("GET", "/instance"))["status"])
        except RefusedError as refused:
            if refused.code == "no-agent":
                return "none"
            raise

    async def _done(self, request: str) -> bool | Pending[bool]:
        answer = await self.asking.ask("GET", f"/requests/{request}")
        if answer["state"] == "refused":
            raise RefusedError("cancel", 0, answer["code"], answer["detail"])
        return True if answer["state"] == "done" else Pending(answer["detail"])


async def _press(url: str, action: str) -> None:
    """Press a button of a page of the stand-in of Stripe, which nobody kills."""
    async with own_client(timeout=httpx.Timeout(30.0)) as http:
        answer = await http.post(url, data={"action": action})
    assert answer.status_code == 303, f"{url}: {answer.status_code} {answer.text}"
