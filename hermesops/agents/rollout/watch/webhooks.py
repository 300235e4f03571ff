"""Sends changes of a rollout's state to the webhook, and asks web services that are gates.

A receiver that does not answer does not delay a rollout: it is logged, and a gate without an answer is inconclusive.
"""

from collections.abc import Callable, Mapping
from typing import Any

from hermesops.agents.rollout.records.events import Event, Recorded, kind_of
from hermesops.errors import UsageError
from hermesops.model.rollout.records import GateResult, Rollout
from hermesops.wire.foreign_text import one_line, quoted
from hermesops.wire.strict_json import MalformedJSONError, parse

KIND, VERSION = "hermesops-rollout", 1
"""Of every message; a field never changes its meaning within a version."""

_NOTIFY_S = 10.0
_TRIES = 2
_LARGEST = 64 << 10
"""Bytes of an answer."""

_PLAIN = {"Accept-Encoding": "identity"}
_RESULTS = frozenset({GateResult.PASS, GateResult.FAIL, GateResult.INCONCLUSIVE})


def message(rollout: Rollout, event: Recorded[Event] | None, *, environment: str) -> dict[str, object]:
    """The message to a receiver, without anything of a user. Pure."""
    return {
        "kind": KIND,
        "version": VERSION,
        "environment": environment,
        "rollout": rollout.id,
        "release": rollout.release,
        "action": rollout.action.value,
        "state": rollout.state.value,
        "reason": rollout.reason,
        "who": rollout.who,
        "event": event.id if event else None,
        "what": kind_of(event.event) if event else None,
        "at": (event.at if event else rollout.updated_at).isoformat(timespec="seconds"),
    }


class WebHook:
    """Posts one message for each change of state.

    Args:
        url: Empty for none. It may hold a secret and is never shown.
        warn: Logs a message that was not delivered: an event's name, and fields.
        refuses: Why a URL must not be used at all; empty when it may be.
    """

    def __init__(
        self, url: str, *, environment: str, warn: Callable[..., None], refuses: Callable[[str], str] = lambda _: ""
    ) -> None:
        self._url = url
        self._environment = environment
        self._warn = warn
        self._refused = refuses(url) if url else ""

    async def notify(self, rollout: Rollout, event: Recorded[Event]) -> None:
        """Send one message; ``event.id`` lets a receiver drop a repeated one."""
        if not self._url:
            return
        problem = self._refused
        for _ in range(0 if problem else _TRIES):
            status, _answer, problem = await _post(
                self._url, message(rollout, event, environment=self._environment), timeout_s=_NOTIFY_S
            )
            if status and status < 300:  # noqa: PLR2004 - HTTP
                return
            problem = problem or f"it answered {status}"
        self._warn("rollout_message_not_delivered", rollout=rollout.id, state=rollout.state.value, problem=problem)


async def ask_service(url: str, body: Mapping[str, object], *, timeout_s: float) -> tuple[GateResult, str]:
    """The answer of a web service and a line of detail; ``inconclusive`` when it gave none that can be read."""
    status, answer, problem = await _post(url, body, timeout_s=timeout_s)
    if problem:
        return GateResult.INCONCLUSIVE, problem
    if status != 200 or not isinstance(answer, dict):  # noqa: PLR2004 - HTTP
        return GateResult.INCONCLUSIVE, f"it answered {status}"
    result = str(answer.get("result"))
    if result not in _RESULTS:
        return (
            GateResult.INCONCLUSIVE,
            f"it answered {quoted(result, longest=40)} instead of pass, fail or inconclusive",
        )
    return GateResult(result), one_line(str(answer.get("detail") or ""))


async def _post(url: str, body: Mapping[str, object], *, timeout_s: float) -> tuple[int, Any, str]:
    """Status and body of the answer, or why there is none; the address is repeated nowhere and no redirect followed."""
    import httpx  # noqa: PLC0415 - most rollouts have no hook

    from hermesops.base.network.http import ProxyFailedError, client  # noqa: PLC0415 - as above
    from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError  # noqa: PLC0415 - as above

    deadline = Deadline(timeout_s)
    try:
        async with client(timeout=timeout_s, headers=_PLAIN) as opened:
            request = opened.build_request("POST", url, json=body)
            answer = await deadline.bound(opened.send(request, stream=True))
            try:
                text = await AnswerBody(answer, deadline=deadline, largest=_LARGEST).whole()
            finally:
                await answer.aclose()
    except (ProxyFailedError, UsageError) as error:  # these name a variable of this process, and no address of a hook
        return 0, None, f"no answer: {error}"
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return 0, None, f"no answer: {type(error).__name__}"
    except UnreadableAnswerError as error:
        return 0, None, f"no answer: {error}"
    try:
        return answer.status_code, parse(text), ""
    except MalformedJSONError:
        return answer.status_code, None, ""
