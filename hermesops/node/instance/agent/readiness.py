"""What a gateway must answer before anybody else may reach it."""

from http import HTTPStatus
from urllib.parse import quote

from hermesops.node.errors import NodeError
from hermesops.node.instance.agent import gateway, turn
from hermesops.node.instance.agent.check import Check
from hermesops.node.ports import System

_LONGEST = 300
_HEALTH_S = 90.0
_TURN_S = 60.0
_RESTARTS = 2
"""systemd starts a gateway that ends again after 5 s, and forgets how often when somebody starts it."""


def ask_all(system: System, port: int, key: str, *, unit: str, takes_turns: bool) -> tuple[Check, ...]:
    """Ask a gateway that is starting; the first check that fails is the last one.

    Args:
        system: Of the machine.
        port: Of its API.
        key: Bearer of it.
        unit: Its systemd unit, which tells early that nothing will come.
        takes_turns: Whether there is a model for it.
    """
    asked = [await_health(system, port, key, unit=unit, timeout_s=_HEALTH_S)]
    for ask in (_state, _tools):
        if asked[-1].ok:
            asked.append(ask(system, port, key))
    if takes_turns and asked[-1].ok:
        asked.append(_turn(system, port, key))
    return tuple(asked)


def await_health(system: System, port: int, key: str, *, unit: str, timeout_s: float) -> Check:
    """Wait until a gateway that was started is well; no longer than it takes to see that it keeps ending."""
    started, deadline = system.monotonic(), system.monotonic() + timeout_s
    while True:
        answer = gateway.wait_until_healthy(system, port, key, timeout_s=0)
        if gateway.is_ok(answer):
            return Check("health", ok=True, detail=f"after {system.monotonic() - started:.1f} s")
        held = gateway.look(system, unit)
        if held.state == "failed" or held.restarts >= _RESTARTS or system.monotonic() >= deadline:
            what = f"unit {held.state}, {held.properties.get('Result', '')}, started again {held.restarts} times"
            return Check("health", ok=False, detail=f"{answer}; {what}"[:_LONGEST])
        system.sleep(0.1)


def _state(system: System, port: int, key: str) -> Check:
    """It reads the sessions that there are, and what was said in one."""
    listed = system.ask(port, "/api/sessions?limit=1", key=key)
    if listed.status != HTTPStatus.OK or not isinstance(listed.body, dict):
        return Check("state", ok=False, detail=f"sessions: {listed}"[:_LONGEST])
    held = listed.objects("data") or listed.objects("sessions") or []
    for session in held[:1]:
        said = system.ask(port, f"/api/sessions/{quote(str(session.get('id')), safe='')}/messages", key=key)
        if said.status != HTTPStatus.OK:
            return Check("state", ok=False, detail=f"messages: {said.status}")
    return Check("state", ok=True, detail=f"{len(held)} session read")


def _tools(system: System, port: int, key: str) -> Check:
    told = system.ask(port, "/v1/toolsets", key=key, timeout_s=20)
    sets = told.objects("data")
    if told.status != HTTPStatus.OK or sets is None:
        return Check("tools", ok=False, detail=str(told)[:_LONGEST])
    count = sum(_length(each.get("tools")) for each in sets if each.get("enabled"))
    return Check("tools", ok=count > 0, detail=f"{count} tools")


def _length(tools: object) -> int:
    return len(tools) if isinstance(tools, list | dict) else 0


def _turn(system: System, port: int, key: str) -> Check:
    try:
        taken = turn.take(system, port, key, timeout_s=_TURN_S)
    except NodeError as error:
        return Check("turn", ok=False, detail=str(error)[:_LONGEST])
    return Check("turn", ok=taken.ok, detail=taken.detail or f"{taken.seconds:.1f} s")
