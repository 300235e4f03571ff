"""Whatever the agent answers to hermes-node: the machine goes on being looked at, drained, fenced and changed."""

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from hermesops.programs.node.instance import drain, fencing
from hermesops.programs.node.instance import status as observe
from hermesops.programs.node.instance.agent import gateway, readiness
from hermesops.programs.node.instance.agent.api import Answer, ask
from hermesops.programs.node.instance.personalise import personalise
from hermesops.programs.node.metrics.collector import collect
from hermesops.programs.node.system.files import locked
from hermesops.wire.errors import NodeError, OutrankedError
from hermesops.wire.protocol import FencingToken
from tests.support.fakes.machines.node_home import NodeHome, make
from tests.support.fakes.machines.node_system import KEY
from tests.support.hostile.agents.hostile_moods import END, ESCAPES, MOODS, SHAPES
from tests.support.hostile.http_service import run_mood

LIMIT_S = 0.5
ENDS_S = 30.0
"""Seconds after which a question has not ended: many times its limit."""


@contextmanager
def _agent(mood: str, taken: list[int] | None = None) -> Iterator[int]:
    """An agent's API on loopback that answers everything in one mood; its port. Sizes of its writes go to ``taken``."""

    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            def write(data: bytes) -> None:
                if data == END:
                    self.connection.shutdown(socket.SHUT_WR)
                self.wfile.write(data)
                if taken is not None:
                    taken.append(len(data))

            run_mood(mood, write)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.turns(20)
@pytest.mark.parametrize("mood", MOODS)
def test_a_question_to_the_agent_ends_within_its_time_and_size(mood: str) -> None:
    answers: list[Answer] = []
    with _agent(mood) as port:
        asking = threading.Thread(target=lambda: answers.append(ask(port, "/health", timeout_s=LIMIT_S)), daemon=True)
        asking.start()
        asking.join(ENDS_S)
    assert len(answers) == 1
    shown = str(answers[0])
    assert shown.isprintable()
    assert len(shown) < 400
    answers[0].part("readiness", "checks", "background_queues")
    answers[0].objects("jobs")


def test_no_more_of_an_endless_answer_is_read_than_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.programs.node.instance.agent.api._LARGEST", 1 << 20)
    taken: list[int] = []
    with _agent("endless_body", taken) as port:
        assert ask(port, "/health", timeout_s=10).body == f"an answer of more than {1 << 20} bytes"
    assert sum(taken) < 32 << 20  # what is on its way and in buffers, beside that


def test_an_answer_that_ends_with_its_time_is_none() -> None:
    with _agent("drips_body") as port:
        began = time.monotonic()
        answer = ask(port, "/health", timeout_s=LIMIT_S)
        assert time.monotonic() - began >= LIMIT_S
    assert (answer.status, answer.body) == (0, f"no whole answer within {LIMIT_S:g} s")


def test_what_is_repeated_of_an_answer_can_neither_obey_nor_pose() -> None:
    shown = str(Answer(500, ESCAPES + "”: hermes-node: all is well"))
    assert shown.isprintable()
    assert shown.startswith("500: “ok hermes-node: all is well\\x1b]52;")
    assert shown.count("”") == 1
    assert shown.endswith("”")


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    machine = make(tmp_path)
    personalise(machine.node, machine.personalised(), wait_s=5)
    return machine


@pytest.mark.turns(60)
@pytest.mark.parametrize("body", [*SHAPES.values(), ESCAPES, "", [[[]]]], ids=repr)
@pytest.mark.parametrize("status", [200, 202, 401, 500])
def test_whatever_shape_an_answer_has_the_machine_is_looked_at_drained_and_fenced(
    machine: NodeHome, body: object, status: int
) -> None:
    machine.system.fixed_answer = Answer(status, body)
    json.dumps(observe.status(machine.node), allow_nan=False)
    shown = json.dumps(observe.health(machine.node).to_json(), allow_nan=False)
    assert all(check["detail"].isprintable() for check in json.loads(shown)["checks"])
    with suppress(NodeError):  # that the agent does not say what it is at
        drain.drain(machine.node, deadline_s=1, lease=None)
    gateway.wait_until_healthy(machine.node.system, 1, KEY, timeout_s=0)
    with suppress(NodeError):
        agent_turn = readiness.take_turn(machine.node.system, 1, KEY, timeout_s=1)
        assert agent_turn.detail.isprintable()
    assert fencing.fence(machine.node, lease=None) == {"fenced": True}


_SERIES = re.compile(r'hermes_[a-z_]+(\{[a-z]+="[A-Za-z0-9_.:+-]+"(,[a-z]+="[A-Za-z0-9_.:+-]+")*\})? -?[0-9][0-9.e+-]*')


def _figures(machine: NodeHome) -> dict[str, float]:
    """The series that ``metrics`` writes; each line is of the form that node_exporter reads, and of ours alone."""
    machine.layout.metrics.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    assert set(collect(machine.node)["failed"]) <= {"agent", "queue"}
    assert time.monotonic() - began < ENDS_S
    lines = [line for line in machine.layout.metrics.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not _SERIES.fullmatch(line)] == []
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}


@pytest.mark.turns(30)
@pytest.mark.parametrize("mood", MOODS)
def test_the_figures_are_written_however_the_agent_answers(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch, mood: str
) -> None:
    def asked(_port: int, path: str, *, key: str, timeout_s: float = LIMIT_S, largest: int) -> Answer:
        return ask(port, path, key=key, timeout_s=min(timeout_s, LIMIT_S), largest=largest)

    with _agent(mood) as port:
        monkeypatch.setattr(machine.system, "ask", asked)
        figures = _figures(machine)
    assert figures["hermes_gateway_up"] == 1
    assert sum(value for series, value in figures.items() if series.startswith("hermes_agent_health")) in {0, 1}


@pytest.mark.turns(60)
@pytest.mark.parametrize("body", [*SHAPES.values(), ESCAPES, "", [[[]]]], ids=repr)
def test_the_figures_are_written_whatever_shape_an_answer_has(machine: NodeHome, body: object) -> None:
    machine.system.fixed_answer = Answer(200, body)
    assert _figures(machine)["hermes_personalised"] == 1


def test_a_look_at_the_machine_does_not_depend_on_the_agent(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_words: object, **_options: object) -> Answer:
        raise RecursionError

    monkeypatch.setattr(machine.system, "ask", broken)
    assert observe.status(machine.node)["busy"] is None


def _token(counter: int) -> FencingToken:
    return FencingToken("instance/i-1", 1, counter, f"op-{counter}")


@pytest.fixture
def waits_for_the_gateway(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Thread]:
    """Another hermes-node that holds the machine's lock until the gateway ends."""
    monkeypatch.setattr("hermesops.programs.node.instance.fencing._WAIT_S", 0.1)
    holds, is_over = threading.Event(), threading.Event()

    def wait() -> None:
        with locked(machine.layout.lock):
            holds.set()
            while machine.system.running and not is_over.wait(0.01):
                pass

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert holds.wait(ENDS_S)
    yield thread
    is_over.set()
    thread.join(ENDS_S)
    assert not thread.is_alive()


def test_whoever_waits_for_an_agent_does_not_keep_the_gateway_from_being_fenced(
    machine: NodeHome, waits_for_the_gateway: threading.Thread
) -> None:
    assert fencing.fence(machine.node, lease=_token(2)) == {"fenced": True}
    waits_for_the_gateway.join(ENDS_S)
    assert not waits_for_the_gateway.is_alive()


def test_whoever_was_outranked_stops_no_gateway_behind_a_lock_either(
    machine: NodeHome, waits_for_the_gateway: threading.Thread
) -> None:
    fencing.admit(machine.node, _token(5))
    with pytest.raises(OutrankedError, match="was taken over"):
        fencing.fence(machine.node, lease=_token(4))
    assert machine.system.running
    assert not fencing.is_fenced(machine.node)
    assert waits_for_the_gateway.is_alive()
