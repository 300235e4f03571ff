"""The toolbox's calls about files and processes, through the API, by the vendor's stand-in daemon itself."""

import asyncio
import io
import os
import sys
import zipfile
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.fakes.machines.driver import pretended
from tests.support.worlds.local.local_server import LocalCloud, serving

Toolbox = Callable[..., Coroutine[Any, Any, httpx.Response]]


@pytest.fixture(scope="module")
async def toolbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Toolbox]:
    async with pretended() as driver, serving(tmp_path_factory.mktemp("toolbox") / "world", driver) as cloud:
        yield await toolbox_of(cloud)


async def toolbox_of(cloud: LocalCloud) -> Toolbox:
    machine = await cloud.ready()

    async def ask(method: str, call: str, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's own
        return await cloud.http.request(method, f"/api/v1/machines/{machine['id']}/toolbox/{call}", **options)

    return ask


async def test_words_are_found_and_replaced_in_files(toolbox: Toolbox, tmp_path: Path) -> None:
    top = tmp_path / "files"
    (top / "deep").mkdir(parents=True)
    (top / "a.conf").write_text("port = 80\nhost = x\nport = 81\n")
    (top / "deep" / "b.conf").write_text("port = 82\n")
    (top / "deep" / "c.txt").write_text("port = 83\n")
    (top / "binary").write_bytes(b"port = 84\0")
    (top / "a.conf").chmod(0o640)
    query = {"path": str(top), "pattern": r"^port = \d+$", "include": "*.conf", "max_results": "2"}
    files = (await toolbox("GET", "files/find", params=query)).json()
    assert files == {
        "matches": [
            {"file": f"{top}/a.conf", "line": 1, "content": "port = 80"},
            {"file": f"{top}/a.conf", "line": 3, "content": "port = 81"},
        ],
        "truncated": True,
        "total": 2,
    }
    whole = (await toolbox("GET", "files/find", params={**query, "max_results": "3"})).json()
    assert (len(whole["matches"]), whole["truncated"], whole["total"]) == (3, False, 3)
    body = {
        "files": [f"{top}/a.conf", f"{top}/deep/c.txt"],
        "pattern": r"port = (\d)",
        "new_value": r"listen \1",
    }
    replaced = (await toolbox("POST", "files/replace", json=body)).json()
    assert [row["replacements"] for row in replaced["results"]] == [2, 1]
    assert (top / "a.conf").read_text() == "listen 80\nhost = x\nlisten 81\n"
    assert (top / "a.conf").stat().st_mode & 0o777 == 0o640
    assert sorted(os.listdir(top)) == ["a.conf", "binary", "deep"]  # noqa: PTH208 - names, hidden ones too


async def test_several_files_come_in_one_zip(toolbox: Toolbox, tmp_path: Path) -> None:
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    large = os.urandom(700_000)
    (tmp_path / "one").write_bytes(large)
    (tmp_path / "folder" / "deep" / "two").write_text("2")
    body = {"paths": [f"{tmp_path}/one", f"{tmp_path}/folder"]}
    answer = await toolbox("POST", "files/bulk-download", json=body)
    assert answer.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == [f"{tmp_path}/one"[1:], f"{tmp_path}/folder/deep/two"[1:]]
        assert archive.read(f"{tmp_path}/one"[1:]) == large


async def test_what_the_vendors_own_client_puts_into_the_query_is_taken(toolbox: Toolbox, tmp_path: Path) -> None:
    response = await toolbox("POST", "files/folder", params={"path": f"{tmp_path}/new", "mode": "750"})
    assert response.json() == {"path": f"{tmp_path}/new", "created": True}
    moved = {"source": f"{tmp_path}/new", "destination": f"{tmp_path}/moved"}
    assert (await toolbox("POST", "files/move", params=moved)).json() == moved
    changed = await toolbox("POST", "files/permissions", params={"path": f"{tmp_path}/moved"}, json={"mode": "700"})
    assert changed.json() == {"path": f"{tmp_path}/moved", "mode": "700", "owner": "root", "group": "root"}
    info = (await toolbox("GET", "files/info", params={"path": f"{tmp_path}/moved"})).json()
    assert (info["type"], info["mode"], info["mode_bits"]) == ("dir", "drwx------", "700")
    there = (await toolbox("GET", "files/exists", params={"path": f"{tmp_path}/moved"})).json()
    assert (there["exists"], there["type"]) == (True, "dir")


async def test_code_runs_with_the_interpreter_of_its_language(toolbox: Toolbox, tmp_path: Path) -> None:
    """Interpreters of a path of the test's own: no computer has all of them."""
    for interpreter in ("node", "ruby"):
        (tmp_path / interpreter).write_text(f"#!/bin/sh\necho {interpreter}: $*\nexec /bin/cat\n")
        (tmp_path / interpreter).chmod(0o755)
    for language, interpreter in (("node", "node"), ("javascript", "node"), ("ruby", "ruby")):
        body = {"code": "1 + 1", "language": language, "env": {"PATH": str(tmp_path)}}
        done = await toolbox("POST", "process/code-run", json=body)
        assert (done.status_code, done.json().get("stdout")) == (200, f"{interpreter}: -\n1 + 1"), done.text
    nothing = {"code": "1", "language": "node", "env": {"PATH": f"{tmp_path}/none"}}
    answer = await toolbox("POST", "process/code-run", json=nothing)
    assert (answer.status_code, answer.json().get("exit_code")) == (200, 127)
    assert "node: not found" in answer.json()["stderr"]


@pytest.mark.parametrize("size", [0, 5, 300_000])
async def test_a_file_may_come_as_a_form(toolbox: Toolbox, tmp_path: Path, size: int) -> None:
    data = (b"\r\n--" + os.urandom(size)) if size else b""
    answer = await toolbox(
        "POST", "files/upload", params={"path": f"{tmp_path}/form"}, files={"file": ("name.bin", data)}
    )
    assert answer.json() == {"path": f"{tmp_path}/form", "name": "form", "type": "file", "size": len(data)}
    assert (tmp_path / "form").read_bytes() == data


async def test_processes_are_shown_and_ended_and_the_first_is_protected(toolbox: Toolbox) -> None:
    sleeper = await asyncio.create_subprocess_exec(sys.executable, "-c", "import time; time.sleep(60)")
    listed = (await toolbox("GET", "process/list")).json()["processes"]
    (shown,) = [process for process in listed if process["pid"] == sleeper.pid]
    assert shown["args"].endswith("time.sleep(60)")
    assert shown["memory_rss_bytes"] > 0
    ours = {process["command"] for process in listed if process["ppid"] == os.getpid()}
    assert "justavps-daemon" in ours
    killed = await toolbox("POST", "process/kill", json={"pid": sleeper.pid, "signal": "SIGTERM"})
    assert killed.json() == {"killed": True, "pid": sleeper.pid, "signal": "TERM"}
    assert await sleeper.wait() == -15
    first = await toolbox("POST", "process/kill", json={"pid": 1})
    assert (first.status_code, first.json()["code"]) == (403, "protected")


@pytest.mark.parametrize(
    ("method", "call", "body", "status"),
    [
        ("GET", "files/find?path=/srv", None, 400),
        ("GET", "files/find?path=/srv&pattern=(", None, 400),
        ("GET", "files/find?path=/nowhere&pattern=x", None, 404),
        ("POST", "files/replace", {"files": ["/nowhere"], "pattern": "x", "new_value": ""}, 404),
        ("POST", "files/replace", {"files": ["relative"], "pattern": "x", "new_value": ""}, 400),
        ("POST", "files/replace", {"files": [], "pattern": "(", "new_value": ""}, 400),
        ("POST", "files/replace", {"files": "x", "pattern": "x", "new_value": ""}, 400),
        ("POST", "files/replace", {"files": ["/proc/self/comm"], "pattern": "(.)", "new_value": r"\9"}, 400),
        ("POST", "files/bulk-download", {"paths": ["/nowhere"]}, 404),
        ("POST", "files/bulk-download", {"paths": []}, 400),
        ("POST", "process/kill", {"pid": 2, "signal": "WINK"}, 400),
        ("POST", "process/kill", {"pid": -1}, 400),
        ("POST", "process/code-run", {"code": "x", "language": "cobol"}, 400),
    ],
)
async def test_what_cannot_be_is_refused_in_the_toolboxs_shape(
    toolbox: Toolbox, method: str, call: str, body: object, status: int
) -> None:
    answer = await toolbox(method, call, **({"json": body} if body is not None else {}))
    assert (answer.status_code, set(answer.json())) == (status, {"error", "code"}), answer.text


async def test_a_form_that_breaks_off_leaves_nothing(toolbox: Toolbox, tmp_path: Path) -> None:
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    for content in (b"--x\r\nA: b\r\n\r\nhalf", b"no boundary at all", b""):
        answer = await toolbox(
            "POST", "files/upload", params={"path": f"{tmp_path}/f"}, headers=headers, content=content
        )
        assert answer.status_code == 400
    assert not (tmp_path / "f").exists()
