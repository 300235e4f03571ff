"""One turn of the agent, in a session of its own that is removed again: what shows that it can still answer.

Nothing that a user reads or that the agent keeps comes of it. It asks the instance's own model router, so an answer
proves the whole way.

Source: ``gateway/platforms/api_server.py`` of hermes-agent 0.18.2 and 0.19.0: a run is started with 202 and asked for
until its status is one of ``completed``, ``failed`` and ``cancelled``; one without a key of its own for long-term
memory is given none.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from hermesops.node.errors import NotReadyError
from hermesops.node.ports import System
from hermesops.node.untrusted.foreign_text import one_line

SESSION = "hermes-node-probe-"
"""Every session of a probe begins so: one that a killed probe left behind can be told from a user's."""

_QUESTION = "Answer with the one word: pong"
_INSTRUCTIONS = "This is a probe of the service. Use no tools and remember nothing of it."
_EVERY_S = 0.1
_ENDED = frozenset({"completed", "failed", "cancelled"})
_LONGEST_DETAIL = 300
_LEFT = 20
"""Sessions of probes that are removed at once: as many as are asked for."""


@dataclass(frozen=True)
class AgentTurn:
    """What came of it.

    Attributes:
        ok: Whether the agent answered with words.
        seconds: From the question to the answer, or until nobody waited any longer.
        detail: Why it is not well.
    """

    ok: bool
    seconds: float
    detail: str = ""


def take(system: System, port: int, key: str, *, timeout_s: float) -> AgentTurn:
    """Have the agent take a turn.

    Raises:
        NotReadyError: Its session could not be removed.
    """
    session = f"{SESSION}{secrets.token_hex(6)}"
    started = system.monotonic()
    try:
        ok, detail = _asked(system, port, key, session, until=started + timeout_s)
        seconds = round(system.monotonic() - started, 3)
    finally:
        gone = system.ask(port, f"/api/sessions/{session}", key=key, method="DELETE")
    if ok and gone.status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:
        raise NotReadyError(f"the gateway keeps the session of the probe: {gone.status}")
    return AgentTurn(ok, seconds, detail[:_LONGEST_DETAIL])


def forget_left(system: System, port: int, key: str) -> int:
    """Remove sessions of probes whose agent ended before theirs could be removed; how many of the latest there were."""
    listed = system.ask(port, "/api/sessions?limit=20", key=key)
    held = listed.objects("data") or ()
    left = [str(each.get("id")) for each in held if str(each.get("id", "")).startswith(SESSION)][:_LEFT]
    for session in left:
        system.ask(port, f"/api/sessions/{quote(session, safe='')}", key=key, method="DELETE")
    return len(left)


def _asked(system: System, port: int, key: str, session: str, *, until: float) -> tuple[bool, str]:
    """Whether it answered, and why not."""
    body = {"input": _QUESTION, "instructions": _INSTRUCTIONS, "session_id": session}
    begun = system.ask(port, "/v1/runs", key=key, body=body)
    if begun.status != HTTPStatus.ACCEPTED or not isinstance(begun.body, dict):
        return False, f"no run was begun: {begun}"
    run = quote(str(begun.body.get("run_id", "")), safe="")
    while True:
        answer = system.ask(port, f"/v1/runs/{run}", key=key)
        told = answer.part()
        if str(told.get("status")) in _ENDED or answer.status == HTTPStatus.NOT_FOUND:
            return _judged(told)
        if system.monotonic() >= until:
            system.ask(port, f"/v1/runs/{run}/stop", key=key, body={})
            return False, f"no answer in time: {one_line(str(told.get('status') or answer))}"
        system.sleep(_EVERY_S)


def _judged(told: Mapping[str, object]) -> tuple[bool, str]:
    if told.get("status") != "completed":
        return False, one_line(f"the run {told.get('status', 'is gone')}: {told.get('error', '')}".strip(": "))
    return (True, "") if told.get("output") else (False, "the run answered nothing")
