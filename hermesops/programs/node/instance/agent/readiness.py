"""Checks of a gateway before it is opened to other processes: health, state, tools, and a turn of its agent.

The turn has a session of its own that is removed afterwards, so neither the user nor the agent sees it. It uses the
instance's own model router, so an answer proves the whole path.

Source: ``gateway/platforms/api_server.py`` of hermes-agent 0.18.2 and 0.19.0: a run is started with 202 and polled
until its status is one of ``completed``, ``failed`` and ``cancelled``; one without a key of its own for long-term
memory is given none.
"""

from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.ports import System
from hermesops.wire.errors import NodeError, NotReadyError
from hermesops.wire.foreign_text import one_line
from hermesops.wire.protocol import Check

SESSION = "hermes-node-probe-"
"""Every session of a probe begins so: one that a killed probe left can be told from a user's."""

_QUESTION = "Answer with the one word: pong"
_INSTRUCTIONS = "This is a probe of the service. Use no tools and remember nothing of it."
_EVERY_S = 0.1
_ENDED = frozenset({"completed", "failed", "cancelled"})
_LEFT = 20
"""Sessions of probes that are removed at once: as many as are asked for."""

_LONGEST = 300
_HEALTH_S = 90.0
_TURN_S = 60.0
_RESTARTS = 2
"""systemd restarts a gateway 1 s after its end, and resets the count when somebody starts it."""


def ask_all(system: System, port: int, key: str, *, unit: str, takes_turns: bool) -> tuple[Check, ...]:
    """Check a gateway that is starting; stop at the first check that fails.

    The unit shows early that the gateway keeps ending. The turn is only taken if there is a model for it.
    """
    checks = [await_health(system, port, key, unit=unit, timeout_s=_HEALTH_S)]
    if checks[-1].ok:
        checks.extend(ask_running(system, port, key))
    if takes_turns and checks[-1].ok:
        checks.append(_turn(system, port, key))
    return tuple(checks)


def ask_running(system: System, port: int, key: str) -> tuple[Check, ...]:
    """Check state and tools of a healthy gateway; stop at the first check that fails."""
    state = _state(system, port, key)
    return (state, _tools(system, port, key)) if state.ok else (state,)


def await_health(system: System, port: int, key: str, *, unit: str, timeout_s: float) -> Check:
    """Wait until a started gateway is healthy, or until its unit shows that it keeps ending."""
    started, deadline = system.monotonic(), system.monotonic() + timeout_s
    while True:
        answer = gateway.wait_until_healthy(system, port, key, timeout_s=0)
        if gateway.is_ok(answer):
            return Check("health", ok=True, detail=f"after {system.monotonic() - started:.1f} s")
        observed = gateway.observe(system, unit)
        if observed.state == "failed" or observed.restarts >= _RESTARTS or system.monotonic() >= deadline:
            unit_state = f"unit {observed.state}, {observed.properties.get('Result', '')}, {observed.restarts} restarts"
            return Check("health", ok=False, detail=f"{answer}; {unit_state}"[:_LONGEST])
        system.sleep(0.1)


def _state(system: System, port: int, key: str) -> Check:
    """Check that the agent can read its sessions, and the messages of one."""
    listed = system.ask(port, "/api/sessions?limit=1", key=key)
    if listed.status != HTTPStatus.OK or not isinstance(listed.body, dict):
        return Check("state", ok=False, detail=f"sessions: {listed}"[:_LONGEST])
    sessions = listed.objects("data") or listed.objects("sessions") or []
    for session in sessions[:1]:
        messages = system.ask(port, f"/api/sessions/{quote(str(session.get('id')), safe='')}/messages", key=key)
        if messages.status != HTTPStatus.OK:
            return Check("state", ok=False, detail=f"messages: {messages.status}")
    return Check("state", ok=True, detail=f"{min(len(sessions), 1)} of {len(sessions)} sessions read")


def _tools(system: System, port: int, key: str) -> Check:
    answer = system.ask(port, "/v1/toolsets", key=key, timeout_s=20)
    sets = answer.objects("data")
    if answer.status != HTTPStatus.OK or sets is None:
        return Check("tools", ok=False, detail=str(answer)[:_LONGEST])
    enabled = [each.get("tools") for each in sets if each.get("enabled")]
    count = sum(len(tools) for tools in enabled if isinstance(tools, list | dict))
    return Check("tools", ok=count > 0, detail=f"{count} tools")


def _turn(system: System, port: int, key: str) -> Check:
    try:
        taken = take_turn(system, port, key, timeout_s=_TURN_S)
    except NodeError as error:
        return Check("turn", ok=False, detail=str(error)[:_LONGEST])
    return Check("turn", ok=taken.ok, detail=taken.detail or f"{taken.seconds:.1f} s")


@dataclass(frozen=True)
class AgentTurn:
    """The outcome of a turn.

    Attributes:
        ok: Whether the agent answered with a text.
        seconds: From the question to the answer, or to the timeout.
    """

    ok: bool
    seconds: float
    detail: str = ""


def take_turn(system: System, port: int, key: str, *, timeout_s: float) -> AgentTurn:
    """Let the agent take a turn.

    Raises:
        NotReadyError: Its session could not be removed.
    """
    import secrets  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    session = f"{SESSION}{secrets.token_hex(6)}"
    started = system.monotonic()
    try:
        ok, detail = _run(system, port, key, session, until=started + timeout_s)
        seconds = round(system.monotonic() - started, 3)
    finally:
        gone = system.ask(port, f"/api/sessions/{session}", key=key, method="DELETE")
    if ok and gone.status not in {HTTPStatus.OK, HTTPStatus.NOT_FOUND}:
        raise NotReadyError(f"the gateway keeps the session of the probe: {gone.status}")
    return AgentTurn(ok, seconds, detail[:_LONGEST])


def remove_left_sessions(system: System, port: int, key: str) -> int:
    """Remove the latest sessions of probes that their agent did not live to remove; return their number."""
    listed = system.ask(port, "/api/sessions?limit=20", key=key)
    sessions = listed.objects("data") or ()
    left = [str(each.get("id")) for each in sessions if str(each.get("id", "")).startswith(SESSION)][:_LEFT]
    for session in left:
        system.ask(port, f"/api/sessions/{quote(session, safe='')}", key=key, method="DELETE")
    return len(left)


def _run(system: System, port: int, key: str, session: str, *, until: float) -> tuple[bool, str]:
    """Run the question in a session; return whether the agent answered, and the reason if it did not."""
    body = {"input": _QUESTION, "instructions": _INSTRUCTIONS, "session_id": session}
    begun = system.ask(port, "/v1/runs", key=key, body=body)
    if begun.status != HTTPStatus.ACCEPTED or not isinstance(begun.body, dict):
        return False, f"no run was started: {begun}"
    run = quote(str(begun.body.get("run_id", "")), safe="")
    while True:
        answer = system.ask(port, f"/v1/runs/{run}", key=key)
        result = answer.part()
        if str(result.get("status")) in _ENDED or answer.status == HTTPStatus.NOT_FOUND:
            if result.get("status") != "completed":
                why = f"the run {result.get('status', 'is gone')}: {result.get('error', '')}"
                return False, one_line(why.strip(": "))
            return (True, "") if result.get("output") else (False, "the run has no output")
        if system.monotonic() >= until:
            system.ask(port, f"/v1/runs/{run}/stop", key=key, body={})
            return False, f"no answer in time: {one_line(str(result.get('status') or answer))}"
        system.sleep(_EVERY_S)
