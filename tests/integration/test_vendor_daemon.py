"""The vendor's stand-in daemon on a booted machine, spoken to as the broker speaks to it."""

import asyncio
import base64
import hashlib
import json
import os
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.real.machines.machine import TestMachine, booted_machine
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module")
async def machine() -> AsyncIterator[TestMachine]:
    require(os.geteuid() == 0, "root")
    async with booted_machine() as machine:
        yield machine


async def test_a_command_says_what_it_printed_and_how_it_ended(machine: TestMachine) -> None:
    done = await machine.execute("echo out; echo err >&2; pwd; id -un; exit 7")
    assert (done.exit_code, done.stdout, done.stderr) == (7, "out\n/root\nroot\n", "err\n")


async def test_a_command_runs_where_as_and_with_what_it_was_told(machine: TestMachine) -> None:
    done = await machine.execute(
        'pwd; id -un; id -Gn; echo "$WORD"; echo $HOME', cwd="/srv", user="nobody", env={"WORD": "zwölf"}
    )
    assert done.stdout.splitlines() == ["/srv", "nobody", "nogroup", "zwölf", "/nonexistent"]


async def test_a_command_killed_by_a_signal_ends_as_a_shell_would_say(machine: TestMachine) -> None:
    assert (await machine.execute("kill -TERM $$")).exit_code == 143


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({}, 400, "bad_request"),
        ({"command": "true", "user": "nobody-knows"}, 404, "user_not_found"),
        ({"command": "true", "cwd": "/nowhere"}, 404, "not_found"),
        ({"command": "true", "timeout": -1}, 400, "bad_request"),
        ({"command": "true", "timeout": "soon"}, 400, "bad_request"),
    ],
)
async def test_a_bad_request_is_refused(machine: TestMachine, body: dict[str, object], status: int, code: str) -> None:
    answer = await machine.http.post("/toolbox/process/execute", json=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_timeout_leaves_nothing_behind_not_even_what_fled_to_its_own_session(machine: TestMachine) -> None:
    started = time.monotonic()
    answer = await machine.http.post(
        "/toolbox/process/execute",
        json={"command": "setsid setsid sleep 4711 & (setsid sh -c 'sleep 4711; :' &) ; sleep 4711", "timeout": 0.7},
    )
    assert (answer.status_code, answer.json()["code"]) == (408, "timeout")
    assert time.monotonic() - started < 3
    assert (await machine.execute("pgrep -fx 'sleep 4711'")).stdout == ""


async def test_what_a_command_leaves_running_does_not_hold_its_answer_up(machine: TestMachine) -> None:
    started = time.monotonic()
    done = await machine.execute("sleep 4712 & echo started")
    assert done.stdout == "started\n"
    assert time.monotonic() - started < 2
    assert (await machine.execute("pgrep -fx 'sleep 4712'")).exit_code == 0
    await machine.execute("pkill -fx 'sleep 4712'")


async def test_output_comes_as_it_is_printed_and_ends_with_the_exit_code(machine: TestMachine) -> None:
    events: list[tuple[str, dict[str, object], float]] = []
    command = r"printf 'a\377\n'; sleep 0.5; echo b >&2; exit 3"
    async with machine.http.stream("POST", "/toolbox/process/execute/stream", json={"command": command}) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        kind = ""
        async for line in answer.aiter_lines():
            key, _, value = line.partition(": ")
            kind = value if key == "event" else kind
            if key == "data":
                events.append((kind, json.loads(value), time.monotonic()))
    assert [kind for kind, _, _ in events] == ["stdout", "stderr", "exit"]
    assert base64.b64decode(str(events[0][1]["data"])) == b"a\xff\n"
    assert events[-1][1]["exit_code"] == 3
    assert events[1][2] - events[0][2] > 0.3


async def test_a_listener_that_hangs_up_ends_the_command(machine: TestMachine) -> None:
    body = {"command": "while :; do echo x; sleep 0.1; done # 4713"}
    async with machine.http.stream("POST", "/toolbox/process/execute/stream", json=body) as answer:
        async for _ in answer.aiter_lines():
            break
    for _ in range(30):
        if (await machine.execute("pgrep -f '# 471[3]'")).exit_code == 1:
            return
        await machine.execute("sleep 0.1")
    pytest.fail("the command still runs")


async def test_code_runs_in_its_language(machine: TestMachine) -> None:
    answer = await machine.http.post("/toolbox/process/code-run", json={"code": "print(6 * 7)", "language": "python"})
    assert (answer.json()["exit_code"], answer.json()["stdout"]) == (0, "42\n")
    absent = await machine.http.post("/toolbox/process/code-run", json={"code": "1", "language": "node"})
    assert (absent.status_code, absent.json()["exit_code"]) == (200, 127)


async def test_processes_are_listed_and_ended_but_not_the_first(machine: TestMachine) -> None:
    # Listed between the fork and the exec, it would still bear setsid's name.
    await machine.execute(
        "setsid sleep 4714 >/dev/null 2>&1 & until pgrep -fx 'sleep 4714' >/dev/null; do sleep 0.05; done"
    )
    listed = (await machine.http.get("/toolbox/process/list")).json()["processes"]
    sleeper = next(process for process in listed if process["args"] == "sleep 4714")
    assert sleeper["user"] == "root"
    killed = await machine.http.post("/toolbox/process/kill", json={"pid": sleeper["pid"], "signal": "KILL"})
    assert killed.status_code == 200
    assert (await machine.execute("pgrep -fx 'sleep 4714'")).exit_code == 1
    first = await machine.http.post("/toolbox/process/kill", json={"pid": 1})
    assert (first.status_code, first.json()["code"]) == (403, "protected")


async def test_a_large_file_travels_both_ways_in_pieces(machine: TestMachine) -> None:
    block = os.urandom(1024 * 1024)
    count = 200
    expected = hashlib.sha256(block * count).hexdigest()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(count):
            yield block

    sent = await machine.http.post(
        "/toolbox/files/upload", params={"path": "/srv/deep/er/big", "mode": "640"}, content=pieces()
    )
    assert sent.json() == {"path": "/srv/deep/er/big", "name": "big", "type": "file", "size": count * len(block)}
    received = hashlib.sha256()
    async with machine.http.stream("GET", "/toolbox/files/download", params={"path": "/srv/deep/er/big"}) as answer:
        assert answer.headers["content-length"] == str(count * len(block))
        async for piece in answer.aiter_bytes():
            received.update(piece)
    assert received.hexdigest() == expected
    shown = await machine.execute(
        "stat -c '%a %U' /srv/deep/er/big; grep VmHWM /proc/$(systemctl show -P MainPID justavps-daemon)/status"
    )
    assert shown.stdout.startswith("640 root\n")
    peak_mib = int(shown.stdout.split()[3]) / 1024
    assert peak_mib < 40
    await machine.execute("rm -r /srv/deep")


async def test_an_upload_that_breaks_off_leaves_nothing(machine: TestMachine) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ConnectionError

    with pytest.raises(ConnectionError):
        await machine.http.post("/toolbox/files/upload", params={"path": "/srv/half"}, content=broken())
    assert (await machine.execute("ls -A /srv")).stdout == ""


async def test_files_are_looked_at_and_changed(machine: TestMachine) -> None:
    await machine.upload("/srv/t/a.txt", b"one", mode="600")
    info = (await machine.http.get("/toolbox/files/info", params={"path": "/srv/t/a.txt"})).json()
    assert (info["type"], info["size"], info["mode"], info["owner"]) == ("file", 3, "-rw-------", "root")
    assert (info["mode_bits"], info["group"], info["symlink_target"]) == ("600", "root", None)
    changed = await machine.http.post(
        "/toolbox/files/permissions", json={"path": "/srv/t/a.txt", "mode": "644", "owner": "nobody"}
    )
    assert changed.json() == {"path": "/srv/t/a.txt", "mode": "644", "owner": "nobody", "group": "root"}
    assert (await machine.execute("stat -c '%a %U' /srv/t/a.txt")).stdout == "644 nobody\n"
    where = {"source": "/srv/t/a.txt", "destination": "/srv/t/b/c.txt"}
    assert (await machine.http.post("/toolbox/files/move", params=where)).json() == where
    listed = (await machine.http.get("/toolbox/files", params={"path": "/srv/t", "depth": "2"})).json()["entries"]
    assert [entry["path"] for entry in listed] == ["/srv/t/b", "/srv/t/b/c.txt"]
    files = (await machine.http.get("/toolbox/files/find", params={"path": "/srv", "pattern": "^o.e$"})).json()
    assert files == {
        "matches": [{"file": "/srv/t/b/c.txt", "line": 1, "content": "one"}],
        "truncated": False,
        "total": 1,
    }
    assert await machine.download("/srv/t/b/c.txt") == b"one"
    gone = await machine.http.delete("/toolbox/files", params={"path": "/srv/t", "recursive": "true"})
    assert gone.json() == {"deleted": True, "path": "/srv/t"}
    assert (await machine.http.get("/toolbox/files/exists", params={"path": "/srv/t"})).json()["exists"] is False


@pytest.mark.parametrize(
    ("method", "call", "status", "code"),
    [
        ("GET", "files/download?path=/srv/none", 404, "not_found"),
        ("GET", "files/info?path=/srv/none", 404, "not_found"),
        ("GET", "files/download?path=relative", 400, "bad_request"),
        ("DELETE", "files?path=/root", 403, "protected"),
        ("DELETE", "files?path=/etc/../root&recursive=true", 403, "protected"),
        ("DELETE", "files?path=/etc/systemd", 400, "not_empty"),
        ("POST", "files/upload?path=/etc/hostname&overwrite=false", 409, "exists"),
        ("POST", "files/upload?path=/etc&overwrite=true", 400, "is_directory"),
        ("POST", "files/upload?path=/srv/x&mode=rw", 400, "bad_request"),
        ("GET", "nothing", 404, "no_such_call"),
    ],
)
async def test_what_cannot_be_is_answered_in_the_toolbox_shape(
    machine: TestMachine, method: str, call: str, status: int, code: str
) -> None:
    answer = await machine.http.request(method, f"/toolbox/{call}", content=b"x" if method == "POST" else None)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_nothing_is_answered_without_the_bearer(machine: TestMachine) -> None:
    for path in ("/healthz", "/toolbox/process/list"):
        answer = await machine.http.get(path, headers={"Authorization": "Bearer wrong"})
        assert answer.status_code == 401


async def _connect(
    machine: TestMachine, target: str, token: str
) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
    address, port = machine.driver.daemon_address(machine.id)
    reader, writer = await asyncio.open_connection(str(address), port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: Bearer {token}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    return head.split(b"\r\n", 1)[0], reader, writer


async def test_a_tunnel_reaches_loopback_and_lets_each_side_end_by_itself(machine: TestMachine) -> None:
    server = (
        "import socket; l=socket.create_server(('127.0.0.1', 9099)); c,_=l.accept(); d=b''\n"
        "while (p:=c.recv(65536)): d+=p\n"
        "c.sendall(str(len(d)).encode()); c.close()"
    )
    await machine.upload("/root/server.py", server.encode())
    await machine.execute("systemd-run -q --unit=tunnel-test python3 /root/server.py; "
                          "until ss -ltn | grep -q 9099; do sleep 0.05; done")  # fmt: skip
    status, reader, writer = await _connect(machine, "127.0.0.1:9099", machine.token)
    assert status == b"HTTP/1.1 200 OK"
    writer.write(b"x" * 3_000_000)
    await writer.drain()
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 10) == b"3000000"
    writer.close()


@pytest.mark.parametrize(
    ("target", "token", "status"),
    [("127.0.0.1:9098", None, b"502"), ("10.213.0.1:22", None, b"403"), ("127.0.0.1:22", "wrong", b"401")],
)
async def test_a_tunnel_leads_to_loopback_only_and_for_the_broker_only(
    machine: TestMachine, target: str, token: str | None, status: bytes
) -> None:
    line, _, writer = await _connect(machine, target, token or machine.token)
    writer.close()
    assert line.split()[1] == status


async def test_the_daemon_is_small_and_its_round_trip_short(machine: TestMachine) -> None:
    taken = []
    for _ in range(40):
        started = time.monotonic()
        await machine.execute("true")
        taken.append(time.monotonic() - started)
    shown = await machine.execute("grep VmRSS /proc/$(systemctl show -P MainPID justavps-daemon)/status")
    print(f"execute `true`: median {sorted(taken)[20] * 1000:.1f} ms; {shown.stdout}")  # noqa: T201 - evidence with -s
    assert sorted(taken)[20] < 0.1


async def test_the_watchdog_brings_a_disabled_daemon_back(machine: TestMachine) -> None:
    timer = await machine.execute("systemctl is-active justavps-watchdog.timer")
    assert timer.stdout == "active\n"
    await machine.execute(
        "systemd-run -q --on-active=0.5 --timer-property=AccuracySec=10ms systemctl start justavps-watchdog.service; "
        "systemd-run -q sh -c 'systemctl disable -q justavps-daemon; systemctl stop justavps-daemon'"
    )
    stopped = False
    for _ in range(50):
        try:
            await machine.execute("sleep 0.02")
        except httpx.HTTPError:
            stopped = True
            break
    assert stopped
    await machine.wait_until_booted(timeout_s=10)
    assert (await machine.execute("systemctl is-enabled justavps-daemon")).stdout == "enabled\n"
