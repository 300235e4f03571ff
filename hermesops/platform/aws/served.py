"""Whether users of a platform on AWS are served: its health by its public name, through the load balancer."""

import httpx

from hermesops.base.narration import Reporter
from hermesops.base.network.http import client
from hermesops.base.waiting import Pending, until
from hermesops.errors import Hint, UnavailableError

_ANSWERS_S = 300.0
"""Seconds: a new name is known everywhere after its zone's least time, and a target counts after two checks."""

_LOOK_S = 5.0
_TIME_S = 10.0


async def wait_until_served(report: Reporter, api_url: str) -> None:
    """Wait until the users' API answers under its public name.

    Args:
        api_url: Of the API, as the platform's links have it.

    Raises:
        UnavailableError: It does not in time.
    """
    health = str(httpx.URL(api_url).copy_with(path="/health"))
    report(f"waiting for {health}")

    async def answers() -> bool | Pending[bool]:
        try:
            async with client(timeout=_TIME_S) as asking:
                answer = await asking.get(health)
        except httpx.TransportError as error:
            return Pending(f"{type(error).__name__}: {error}")
        return True if answer.status_code == httpx.codes.OK else Pending(f"it answers {answer.status_code}")

    try:
        await until(answers, what=f"the users' API at {health}", timeout_s=_ANSWERS_S, every_s=_LOOK_S)
    except UnavailableError as error:
        hint = Hint(("runbook", "show", "users-on-aws"), "says where to look")
        raise UnavailableError(error.message, hint=hint) from error
