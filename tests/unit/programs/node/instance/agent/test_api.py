"""What hermes-node reads of whatever listens on the agent's port, which may be a program that the agent wrote."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from hermesops.programs.node.instance.agent import api
from hermesops.programs.node.instance.agent.api import Answer, ask
from hermesops.wire.protocol import says_ok
from tests.support.suite.cases import each_case

_OK = b"HTTP/1.1 200 OK\r\n"
_TIMEOUT_S = 0.2


@contextmanager
def _listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port on which one connection is answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1]
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
        thread.join(10)
        assert not thread.is_alive()


def _asked(answer: Callable[[socket.socket], None]) -> tuple[Answer, float]:
    with _listening(answer) as port:
        started = time.monotonic()
        return ask(port, "/health", timeout_s=_TIMEOUT_S), time.monotonic() - started


def _sent(body: bytes) -> Answer:
    return _asked(lambda connection: connection.sendall(_OK + b"\r\n" + body))[0]


def _for_ever(connection: socket.socket, piece: bytes) -> None:
    for _ in range(100):
        connection.sendall(piece)
        threading.Event().wait(0.05)


def test_an_answer_is_read() -> None:
    assert _sent(b'{"status": "ok"}') == Answer(200, {"status": "ok"})
    assert _sent(b"<html>") == Answer(200, "<html>")


@pytest.mark.parametrize("start", [_OK, _OK + b"\r\n", _OK + b"Content-Length: 1000\r\n\r\n"])
def test_an_answer_that_drips_is_none_after_its_time(start: bytes) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        _for_ever(connection, b"a")

    answer, seconds = _asked(drip)
    assert answer.status == 0
    assert seconds < 3


def test_an_answer_without_end_is_read_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_LARGEST", 1000)
    assert _sent(b" " * 998 + b"{}") == Answer(200, {})
    with _listening(lambda connection: _for_ever(connection, _OK + b"\r\n" + b"1" * 2000)) as port:
        assert ask(port, "/health", timeout_s=2) == Answer(0, "an answer of more than 1000 bytes")


def test_an_answer_that_is_nested_without_end_is_text() -> None:
    assert _sent(b"[" * 100_000) == Answer(200, "[" * 4096)


@pytest.mark.parametrize("name", ["\u00fc", "a b", "a\nHost: b", "\ud800"])
def test_an_id_of_the_agents_that_is_no_part_of_a_path_is_not_asked_for(name: str) -> None:
    with _listening(lambda _: None) as port:
        assert ask(port, f"/v1/runs/{name}", timeout_s=_TIMEOUT_S).status == 0


def test_what_is_below_names_is_found_and_nothing_else() -> None:
    assert Answer(200, {"a": {"b": {"c": 1}}}).part("a", "b") == {"c": 1}
    others: list[object] = [{}, {"a": None}, {"a": [1]}, {"a": {"b": 1}}, [], "a", None]
    assert [Answer(200, body).part("a", "b") for body in others] == [{}] * 7


def test_of_a_list_only_its_objects_are_believed() -> None:
    assert Answer(200, {"jobs": [{"id": 1}, None, "x", [1]]}).objects("jobs") == [{"id": 1}]
    others: list[object] = [{}, {"jobs": {}}, [], None, "jobs"]
    assert [Answer(200, body).objects("jobs") for body in others] == [None] * 5


@each_case(
    ("body", "is_ok"),
    [
        ({"status": "ok"}, True),
        ({"status": "ok", "readiness": {"checks": {"model": {"status": "ok"}}}}, True),
        ({"status": "degraded", "readiness": {"checks": {}}}, False),
        ({"status": "ok", "readiness": []}, False),
        ({"status": "ok", "readiness": {"checks": "all"}}, False),
        ({"status": "ok", "readiness": {"checks": {"database": [1]}}}, False),
        (["ok"], False),
        ("ok", False),
    ],
)
def test_health_counts_in_the_shape_that_agents_give_it(body: object, is_ok: bool) -> None:  # noqa: FBT001 - a case
    assert says_ok(body) is is_ok
