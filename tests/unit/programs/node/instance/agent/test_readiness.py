"""One turn of the agent's: what is asked of its API, and what counts as an answer."""

from collections.abc import Mapping
from typing import Any

import pytest

from hermesops.programs.node.instance.agent import readiness
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.wire.errors import NotReadyError
from tests.support.fakes.machines.node_system import ApiRequest, FakeSystem


class Api(FakeSystem):
    """An agent's API on a clock of its own, whose run comes to what was written down for it."""

    def __init__(self, *ends: Mapping[str, Any], begins: int = 202, forgets: int = 200) -> None:
        super().__init__()
        self.ends = list(ends)
        self.begins = begins
        self.forgets = forgets
        self.asked: list[tuple[str, str]] = []

    def answer(self, request: ApiRequest) -> Answer:
        assert (request.key, request.timeout_s, request.largest) == ("k", 5.0, None)
        self.asked.append(request.step)
        match request.step:
            case "POST", "/v1/runs":
                assert request.body is not None
                self.session = request.body["session_id"]
                return Answer(self.begins, {"run_id": "r1"})
            case "GET", "/v1/runs/r1":
                return Answer(200, self.ends.pop(0) if len(self.ends) > 1 else self.ends[0])
            case "DELETE", _:
                return Answer(self.forgets, {})
        return Answer(200, {})


def test_an_answer_ends_it_and_its_session_goes() -> None:
    api = Api({"status": "queued"}, {"status": "running"}, {"status": "completed", "output": "pong"})
    agent_turn = readiness.take_turn(api, 1, "k", timeout_s=30)
    assert agent_turn == readiness.AgentTurn(ok=True, seconds=0.2)
    assert api.session.startswith(readiness.SESSION)
    assert api.asked[-1] == ("DELETE", f"/api/sessions/{api.session}")


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ({"status": "failed", "error": "401 from the router"}, "the run failed: 401 from the router"),
        ({"status": "completed", "output": ""}, "the run has no output"),
        ({"status": "running"}, "no answer in time: running"),
        ({"status": "waiting_for_approval"}, "no answer in time: waiting_for_approval"),
    ],
)
def test_what_is_no_answer(end: Mapping[str, str], why: str) -> None:
    api = Api(end)
    agent_turn = readiness.take_turn(api, 1, "k", timeout_s=3)
    assert (agent_turn.ok, agent_turn.detail) == (False, why)
    assert api.asked[-1][0] == "DELETE"
    assert (("POST", "/v1/runs/r1/stop") in api.asked) == ("in time" in why)


def test_a_gateway_that_begins_none() -> None:
    agent_turn = readiness.take_turn(Api(begins=503), 1, "k", timeout_s=3)
    assert not agent_turn.ok
    assert agent_turn.detail.startswith("no run was started: 503: ")


def test_an_answer_whose_session_stays_is_no_success() -> None:
    with pytest.raises(NotReadyError, match="keeps the session"):
        readiness.take_turn(Api({"status": "completed", "output": "pong"}, forgets=500), 1, "k", timeout_s=3)


def test_sessions_of_probes_that_were_killed_are_removed_and_no_others() -> None:
    calls: list[tuple[str, str]] = []

    class Sessions:
        def ask(self, _port: int, path: str, *, key: str, method: str = "") -> Answer:
            assert key == "k"
            calls.append((method, path))
            return Answer(200, {"data": [{"id": "s-one"}, {"id": f"{readiness.SESSION}1"}]})

    assert readiness.remove_left_sessions(Sessions(), 1, "k") == 1  # type: ignore[arg-type]  # as much of a System as is asked
    assert calls == [("", "/api/sessions?limit=20"), ("DELETE", f"/api/sessions/{readiness.SESSION}1")]
