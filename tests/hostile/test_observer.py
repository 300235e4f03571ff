"""What looks at the agent on its machine, as root: it ends whatever the API and the home hold."""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from types import SimpleNamespace

import pytest

from hermesops.machines.verify.on_machine import observer
from tests.support.hostile.agents.hostile_moods import MOODS, SHAPES
from tests.support.hostile.http_service import run_mood
from tests.support.suite.cases import each_case

LIMIT_S = 0.5
ENDS_S = 30.0


@contextmanager
def _agent(mood: str, taken: list[int]) -> Iterator[str]:
    class Handler(StreamRequestHandler):
        def handle(self) -> None:
            def write(data: bytes) -> None:
                self.wfile.write(data)
                taken.append(len(data))

            run_mood(mood, write)

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/health"
        server.shutdown()


@each_case("mood", MOODS)
def test_a_question_ends_within_its_time_and_size(mood: str) -> None:
    taken: list[int] = []
    answers: list[tuple[int, dict[str, object]]] = []
    with _agent(mood, taken) as url:
        asking = threading.Thread(
            target=lambda: answers.append(observer.ask("GET", url, timeout_s=LIMIT_S)), daemon=True
        )
        asking.start()
        asking.join(ENDS_S)
    assert len(answers) == 1
    assert sum(taken) < 32 << 20  # what may be read, and what buffers hold


@pytest.mark.parametrize("body", [*SHAPES.values(), {"choices": [{"message": 7}]}, {"data": [7]}], ids=repr)
def test_no_shape_of_an_answer_ends_a_look_or_a_turn(body: object, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = observer.parsed(json.dumps(body))
    monkeypatch.setattr(observer, "ask", lambda *_words, **_options: (200, answer))
    monkeypatch.setattr(observer, "unit", dict)
    for observation in (observer.observe(), observer.chat("s")):
        assert json.loads(json.dumps(observation, allow_nan=False)) == observation


def test_json_that_is_nested_without_end_is_none() -> None:
    assert observer.parsed("[" * 200_000) == {}


def test_skills_are_counted_in_no_folder_that_a_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "real" / "a").mkdir(parents=True)
    (tmp_path / "real" / "a" / "SKILL.md").touch()
    (tmp_path / "skills").symlink_to(tmp_path / "real")
    assert observer.skills(str(tmp_path / "real")) == 1
    assert observer.skills(str(tmp_path / "skills")) == -1


def test_folders_without_end_are_not_all_looked_into(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    answer: list[int] = []

    def walk(_: str) -> Iterator[tuple[str, list[str], list[str]]]:
        while True:
            answer.append(1)
            yield "", [], ["SKILL.md"]

    monkeypatch.setattr(observer, "os", SimpleNamespace(walk=walk, path=os.path))
    assert observer.skills(str(tmp_path)) <= observer.MOST_FOLDERS
    assert len(answer) == observer.MOST_FOLDERS + 1


def test_a_file_is_read_as_far_as_it_may_go(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * (observer.LARGEST + 1))
    assert len(observer.read(str(tmp_path / "large"))) == observer.LARGEST


def test_an_answer_that_drips_has_one_time_for_all_of_it() -> None:
    with _agent("drips_body", []) as url:
        began = time.monotonic()
        assert observer.ask("GET", url, timeout_s=LIMIT_S)[0] == 0
        assert time.monotonic() - began >= LIMIT_S
