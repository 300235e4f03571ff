"""The changes of hermes-agent that releases bring, on modules of the same shape."""

import asyncio
import importlib
import json
import logging
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hermesops.base import assets
from hermesops.base.waiting import Pending, until
from hermesops.machines.release import service

FILES = assets.folder("roles") / "hermes_gateway" / "files"
LATER_S = 10


class Connection:
    """Handles a message by waiting for a result, as hermes-agent does for a command's answer."""

    def __init__(self) -> None:
        self.handled: list[str] = []
        self.result = asyncio.Event()

    async def _handle_frame(self, line: str) -> None:
        frame = json.loads(line)
        if frame["type"] == "outbound_result":
            self.result.set()
            return
        text = frame["event"]["text"]
        if text == "fail":
            raise ValueError(text)
        if text.startswith("/"):
            await self.result.wait()
        self.handled.append(text)


def message(chat: str, text: str) -> str:
    return json.dumps({"type": "inbound", "event": {"text": text, "source": {"chat_id": chat}}})


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    return runpy.run_path(str(FILES / "hermes_changes.py"))


async def test_a_result_is_read_while_a_message_waits_for_it_and_chats_keep_their_order(
    program: dict[str, Any],
) -> None:
    changed = type("Changed", (Connection,), {})
    program["separate"](changed, logging.getLogger())
    connection = changed()
    for line in (message("a", "/approve"), message("a", "after"), message("b", "fail"), message("b", "beside")):
        await asyncio.wait_for(connection._handle_frame(line), LATER_S)

    async def handled() -> bool | Pending[bool]:
        return connection.handled == ["beside"] or Pending(repr(connection.handled))

    await until(handled, what="the message beside", timeout_s=LATER_S, every_s=0.01)
    await connection._handle_frame(json.dumps({"type": "outbound_result"}))

    async def ended() -> bool | Pending[bool]:
        return connection._hermes_last == {} or Pending(repr(connection.handled))

    await until(ended, what="the messages of the first chat", timeout_s=LATER_S, every_s=0.01)
    assert connection.handled == ["beside", "/approve", "after"]


@pytest.mark.parametrize("line", ['{"type": "hello"}', '{"type": "inbound"}', "[]", "7"])
async def test_another_frame_is_the_readers_own(program: dict[str, Any], line: str) -> None:
    lines: list[str] = []

    class Recording:
        async def _handle_frame(self, line: str) -> None:
            lines.append(line)

    program["separate"](Recording, logging.getLogger())
    await Recording()._handle_frame(line)
    assert lines == [line]


def test_an_interpreter_imports_nothing_for_it_and_takes_no_file_of_the_import_path(tmp_path: Path) -> None:
    site, foreign = tmp_path / "site", tmp_path / "foreign"
    for folder in (site, foreign):
        folder.mkdir()
    for name in ("hermes-changes.pth", "hermes_changes.py"):
        (site / name).write_bytes((FILES / name).read_bytes())
    (foreign / "hermes_changes.py").write_text("raise SystemExit(9)")
    code = (
        "import site, sys; before = set(sys.modules); site.addsitedir(sys.argv[1]); "
        "print(sorted(set(sys.modules) - before), sum(type(each).__name__ == 'Finder' for each in sys.meta_path))"
    )
    variables = {"PYTHONPATH": str(foreign)}
    words = [sys.executable, "-c", code, str(site)]
    ran = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stdout.strip(), ran.stderr) == (0, "[] 2", "")


@pytest.fixture
def agent(program: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the import path with packages of hermes-agent's names."""
    for name in ("gateway", "gateway/relay", "agent", "hermes_cli"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert program["Finder"]
    yield tmp_path
    for name in [name for name in sys.modules if name.partition(".")[0] in {"gateway", "agent", "hermes_cli"}]:
        del sys.modules[name]


def test_the_connection_is_changed_when_it_is_imported(agent: Path) -> None:
    (agent / "gateway/relay/ws_transport.py").write_text(
        "import logging\nlogger = logging.getLogger()\n"
        "class WebSocketRelayTransport:\n async def _handle_frame(self, line): pass\n"
    )
    module = importlib.import_module("gateway.relay.ws_transport")
    assert module.WebSocketRelayTransport._handle_frame.__name__ == "handle_frame"


def test_a_job_has_the_managed_keys(agent: Path) -> None:
    (agent / "agent/secret_scope.py").write_text(
        "def build_profile_secret_scope(home): return {'OWN': home, 'BOTH': 'user'}\n"
    )
    (agent / "hermes_cli/managed_scope.py").write_text(
        "def load_managed_env(): return {'BOTH': 'managed', 'ROUTER': 'token'}\n"
    )
    module = importlib.import_module("agent.secret_scope")
    assert module.build_profile_secret_scope("home") == {"OWN": "home", "BOTH": "managed", "ROUTER": "token"}


def test_a_module_of_another_shape_is_left_as_it_is(agent: Path) -> None:
    (agent / "gateway/relay/ws_transport.py").write_text("")
    (agent / "agent/secret_scope.py").write_text("")
    for name in ("gateway.relay.ws_transport", "agent.secret_scope"):
        assert importlib.import_module(name)


def test_a_job_keeps_its_keys_where_there_is_no_managed_scope(agent: Path) -> None:
    (agent / "agent/secret_scope.py").write_text(
        "def build_profile_secret_scope(home, *, more=''): return {'OWN': home + more}\n"
    )
    module = importlib.import_module("agent.secret_scope")
    assert module.build_profile_secret_scope("home", more="!") == {"OWN": "home!"}


def test_a_release_brings_each_file_of_the_role_that_interpreters_read() -> None:
    assert set(service._SITE) == {file.name for file in FILES.iterdir() if file.suffix == ".pth"} | {
        "hermes_changes.py"
    }
