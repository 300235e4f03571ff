# ruff: noqa: PTH112, PTH115, PTH123 - pathlib would cost every start of this program on every machine 10 ms
"""Look at the agent on this machine and print what is seen as one JSON object: no secret, nothing that a user said.

Usage: ``probe.py look`` or ``probe.py chat SESSION``. Keys are used, never printed: only whether they fit, and a digest
that the registry can compare.
"""

import hashlib
import json
import os
import socket
import subprocess
import sys

TYPE_CHECKING = False  # importing typing would cost as much as all the rest
if TYPE_CHECKING:
    from typing import Any

UNIT = "hermes-gateway.service"
PROPERTIES = (
    "ActiveState",
    "SubState",
    "Result",
    "NRestarts",
    "ExecMainStatus",
    "MainPID",
    "Type",
    "WatchdogUSec",
    "ActiveEnterTimestampMonotonic",
    "ExecMainStartTimestampMonotonic",
)
LOOK_S = 5.0
CHAT_S = 60.0
GONE = frozenset({200, 204, 404})


def read(path: str) -> str:
    """A file's text; empty when there is none."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def parsed(text: str) -> "dict[str, Any]":
    """A JSON object; empty when it is none."""
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def variables() -> "dict[str, str]":
    """The managed environment, as hermes-node writes it: NAME='value'."""
    pairs = (line.partition("=") for line in read("/etc/hermes/.env").splitlines())
    return {name: value.strip("'\"") for name, sign, value in pairs if sign}


def ask(
    method: str, url: str, *, key: str = "", body: object = None, session: str = "", timeout_s: float = LOOK_S
) -> "tuple[int, dict[str, Any]]":
    """Status and body of a request; status 0 and a reason when nobody answers.

    By hand, since http.client costs 30 ms to import: HTTP/1.0, so that the answer ends where the connection does.
    """
    scheme, _, rest = url.partition("://")
    host, _, path = rest.partition("/")
    name, _, port = host.partition(":")
    content = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} /{path} HTTP/1.0", f"Host: {host}", "Accept: application/json"]
    lines += [f"Authorization: Bearer {key}"] if key else []
    lines += [f"X-Hermes-Session-Id: {session}"] if session else []
    lines += ["Content-Type: application/json", f"Content-Length: {len(content)}", "", ""]
    try:
        with connected(name, int(port or (443 if scheme == "https" else 80)), scheme, timeout_s) as connection:
            connection.sendall("\r\n".join(lines).encode() + content)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
    except OSError as error:
        return 0, {"reason": str(error) or type(error).__name__}
    head, _, text = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():  # noqa: PLR2004 - protocol, status
        return 0, {"reason": "what answered does not speak HTTP"}
    return int(words[1]), parsed(text.decode("utf-8", "replace"))


def connected(name: str, port: int, scheme: str, timeout_s: float) -> socket.socket:
    """A connection, with TLS where the address says so."""
    connection = socket.create_connection((name, port), timeout_s)
    if scheme != "https":
        return connection
    import ssl  # noqa: PLC0415 - 10 ms that few machines need

    return ssl.create_default_context().wrap_socket(connection, server_hostname=name)


def api(path: str) -> str:
    """Where the agent's API is."""
    return f"http://127.0.0.1:{parsed(read('/etc/hermes-node/gateway.json')).get('port', 8642)}{path}"


def unit() -> "dict[str, str]":
    """What systemd says about the gateway."""
    asked = ["systemctl", "show", UNIT, f"--property={','.join(PROPERTIES)}"]
    shown = subprocess.run(asked, capture_output=True, text=True, timeout=LOOK_S, check=False).stdout
    return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)


def home(pid: int) -> "dict[str, object]":
    """The agent's home as the running gateway sees it: systemd may show it another folder than ours."""
    promised = str(parsed(read("/etc/hermes-node/gateway.json")).get("home", "/var/lib/hermes"))
    entries = read(f"/proc/{pid}/environ").split("\0") if pid else []
    used = dict(entry.split("=", 1) for entry in entries if "=" in entry).get("HERMES_HOME", "")
    seen = used or promised
    return {
        "promised": promised,
        "used": used,
        "filesystem": filesystem(pid, seen) if pid else "",
        "skills": skills(f"/proc/{pid}/root{seen}/skills" if pid else f"{seen}/skills"),
        "bundled": skills("/opt/hermes/current/skills"),
    }


def filesystem(pid: int, path: str) -> str:
    """The kind of file system that a path lies on, as a process sees it."""
    longest, kind = "", ""
    for line in read(f"/proc/{pid}/mountinfo").splitlines():
        words = line.split()
        point = words[4]
        holds = path == point or path.startswith(f"{point.rstrip('/')}/")
        if holds and len(point) >= len(longest):  # of two on the same point the later one is on top
            longest, kind = point, words[words.index("-") + 1]
    return kind


def skills(folder: str) -> int:
    """How many skills are below a folder; -1 when there is no such folder."""
    if not os.path.isdir(folder):
        return -1
    count = 0
    for _, folders, files in os.walk(folder):
        if "SKILL.md" in files:
            count += 1
            folders.clear()  # a skill's own files do not matter, and there are many
    return count


def model(environment: "dict[str, str]") -> "dict[str, object]":
    """What the agent would ask the model router for, and what that says to the agent's token."""
    config = parsed(read("/etc/hermes/config.yaml"))
    chosen = config.get("model") or {}
    provider = (config.get("providers") or {}).get(str(chosen.get("provider", "")).partition(":")[2]) or {}
    variable = str(provider.get("key_env", ""))
    key = environment.get(variable, "")
    status, body = ask("GET", f"{provider['base_url']}/models", key=key) if provider.get("base_url") else (0, {})
    return {
        "name": chosen.get("default", ""),
        "key_variable": variable,
        "has_key": bool(key),
        "router_status": status,
        "offered": sorted(str(entry.get("id")) for entry in body.get("data") or ()),
        "reason": body.get("reason", ""),
    }


def release() -> "dict[str, object]":
    """The running slot: its name and its record."""
    try:
        slot = os.readlink("/opt/hermes/current").rpartition("/")[2]
    except OSError:
        return {}
    return {**parsed(read("/opt/hermes/current/release.json")), "id": slot}


def look() -> "dict[str, object]":
    """Everything but a turn."""
    environment, properties = variables(), unit()
    pid = int(properties.get("MainPID") or 0)
    key = environment.get("API_SERVER_KEY", "")
    alive_status, alive = ask("GET", api("/health"))
    status, detailed = ask("GET", api("/health/detailed"), key=key) if alive_status else (0, {})
    checks = (detailed.get("readiness") or {}).get("checks") or {}
    return {
        "unit": properties,
        "identity": parsed(read("/etc/hermes-node/identity.json")) or None,
        "release": release(),
        "alive": {"status": alive_status, "version": alive.get("version", ""), "reason": alive.get("reason", "")},
        "key_digest": hashlib.sha256(key.encode()).hexdigest() if key else "",
        "detailed": {
            "status": status,
            "verdict": detailed.get("status", ""),
            "state": detailed.get("gateway_state", ""),
            "failing": sorted(name for name, part in checks.items() if part.get("status") != "ok"),
        },
        "model": model(environment),
        "home": home(pid),
    }


def chat(session: str) -> "dict[str, object]":
    """One turn in a session of its own, which is removed again."""
    key = variables().get("API_SERVER_KEY", "")
    asked = {"messages": [{"role": "user", "content": "Answer with the one word: pong"}], "stream": False}
    status, body = ask("POST", api("/v1/chat/completions"), key=key, body=asked, session=session, timeout_s=CHAT_S)
    removed, _ = ask("DELETE", api(f"/api/sessions/{session}"), key=key)
    choice = (body.get("choices") or [{}])[0]
    error = body.get("error")
    return {
        "status": status,
        "answered": bool((choice.get("message") or {}).get("content")) and choice.get("finish_reason") != "error",
        "finish": choice.get("finish_reason") or "",
        "error": str(error.get("message", "") if isinstance(error, dict) else body.get("reason", ""))[:300],
        "session_removed": removed in GONE,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look() if sys.argv[1] == "look" else chat(sys.argv[2])))
