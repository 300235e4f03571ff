# ruff: noqa: PTH112, PTH114, PTH115, PTH123 - pathlib would cost every start of this program on every machine 10 ms
"""Observe the agent on this machine and print one JSON object, without secrets and users' words.

Usage: ``observer.py observe`` or ``observer.py chat SESSION``. Keys are used, never printed: only whether they fit,
and a digest that the registry can compare.
"""

import hashlib
import json
import os
import socket
import stat
import subprocess
import sys
import time

TYPE_CHECKING = False  # importing typing would cost as much as all the rest
if TYPE_CHECKING:
    from typing import Any

UNIT = "hermes-gateway.service"
PROPERTIES = (
    *("ActiveState", "SubState", "Result", "NRestarts", "ExecMainStatus", "MainPID", "Type", "WatchdogUSec"),
    *("ActiveEnterTimestampMonotonic", "ExecMainStartTimestampMonotonic"),
)
LOOK_S = 5.0
CHAT_S = 60.0
LARGEST = 1 << 20
"""Bytes that are read of a file or an answer. The agent decides what its API answers and what lies in its home."""

MOST_FOLDERS = 20_000
"""Limit of folders searched for skills: some forty times those of an agent with all bundled skills."""

OWN_PROVIDER = "own"  # as hermes-node names the user's own model provider

GONE = frozenset({200, 204, 404})


def read(path: str) -> str:
    """A file's text, as far as it may go; empty when there is none."""
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace")
    except OSError:
        return ""


def parsed(text: str) -> "dict[str, Any]":
    """A JSON object; empty when it is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def part(value: object, *names: str) -> "dict[str, Any]":
    """The object under these nested names; empty if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def listed(value: object) -> "list[Any]":
    """A list; empty where it is none."""
    return value if isinstance(value, list) else []


def word(value: object) -> str:
    """A text of the agent's, cut; empty where it is none."""
    return value[:300] if isinstance(value, str) else ""


def variables() -> "dict[str, str]":
    """The managed environment, as hermes-node writes it: NAME='value'."""
    pairs = (line.partition("=") for line in read("/etc/hermes/.env").splitlines())
    return {name: value.strip("'\"") for name, sign, value in pairs if sign}


def ask(
    method: str,
    url: str,
    *,
    key: str = "",
    body: object = None,
    session: str = "",
    timeout_s: float = LOOK_S,
    authorities: str = "",
) -> "tuple[int, dict[str, Any]]":
    """Status and body of a request; status 0 and a reason without an answer.

    By hand, since http.client costs 30 ms to import: HTTP/1.0, so that the answer ends where the connection does. TLS
    trusts the file ``authorities``, where there is one, in the place of the distribution's.
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
        at = int(port or (443 if scheme == "https" else 80))
        with connected(name, at, scheme, timeout_s, authorities) as connection:
            connection.sendall("\r\n".join(lines).encode() + content)
            answer = received(connection, time.monotonic() + timeout_s)
    except OSError as error:
        return 0, {"reason": str(error) or type(error).__name__}
    head, _, text = answer.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():  # noqa: PLR2004 - protocol, status
        return 0, {"reason": "the answer is not HTTP"}
    return int(words[1]), parsed(text.decode("utf-8", "replace"))


def received(connection: socket.socket, until: float) -> bytes:
    """All that comes, within a time and a size: an answer that drips would satisfy any limit of one read."""
    answer = bytearray()
    while True:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError("no whole answer in time")
        connection.settimeout(left)
        piece = connection.recv(65536)
        answer += piece
        if not piece:
            return bytes(answer)
        if len(answer) > LARGEST:
            raise OSError(f"an answer of more than {LARGEST} bytes")


def connected(name: str, port: int, scheme: str, timeout_s: float, authorities: str) -> socket.socket:
    """A connection, with TLS where the address says so; it trusts the distribution's authorities without a file."""
    connection = socket.create_connection((name, port), timeout_s)
    if scheme != "https":
        return connection
    import ssl  # noqa: PLC0415 - 10 ms that few machines need

    context = ssl.create_default_context(cafile=authorities if os.access(authorities, os.R_OK) else None)
    return context.wrap_socket(connection, server_hostname=name)


def api(path: str) -> str:
    """URL of a path of the agent's API on this machine."""
    return f"http://127.0.0.1:{parsed(read('/etc/hermes-node/gateway.json')).get('port', 8642)}{path}"


def unit() -> "dict[str, str]":
    """Read the gateway's properties from systemd."""
    command = ["systemctl", "show", UNIT, f"--property={','.join(PROPERTIES)}"]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=LOOK_S, check=False).stdout
    return dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)


def home(pid: int) -> "dict[str, object]":
    """The agent's home as the running gateway sees it: systemd may show it another folder than ours."""
    promised = str(parsed(read("/etc/hermes-node/gateway.json")).get("home", "/var/lib/hermes"))
    entries = read(f"/proc/{pid}/environ").split("\0") if pid else []
    used = dict(entry.split("=", 1) for entry in entries if "=" in entry).get("HERMES_HOME", "")
    folder = used or promised
    return {
        "promised": promised,
        "used": used,
        "filesystem": filesystem(pid, folder) if pid else "",
        "skills": skills(f"/proc/{pid}/root{folder}/skills" if pid else f"{folder}/skills"),
        "bundled": skills("/opt/hermes/current/skills"),
        "settings": size_of(f"/proc/{pid}/root{folder}/config.yaml" if pid else f"{folder}/config.yaml"),
    }


def size_of(path: str) -> int:
    """Bytes of a file; -1 where there is none, or something else."""
    try:
        status = os.lstat(path)
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


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
    """Count the skills below a folder, up to the limit; -1 when the folder does not exist."""
    if os.path.islink(folder) or not os.path.isdir(folder):
        return -1
    count, until = 0, time.monotonic() + LOOK_S
    for number, (_, folders, files) in enumerate(os.walk(folder)):
        if number >= MOST_FOLDERS or time.monotonic() > until:
            break
        if "SKILL.md" in files:
            count += 1
            folders.clear()  # a skill's own files do not matter, and there are many
    return count


def model(environment: "dict[str, str]") -> "dict[str, object]":
    """Ask the model router for its models with the agent's token; the agent's configured model and the answer.

    A user's own provider is asked nothing: only its agent asks it.
    """
    config = parsed(read("/etc/hermes/config.yaml"))
    chosen = part(config, "model")
    name = str(chosen.get("provider", "")).partition(":")[2]
    provider = part(config, "providers", name)
    variable = str(provider.get("key_env", ""))
    key = environment.get(variable, "")
    # As hermes-agent, which trusts the file where there is one. Source: agent/ssl_verify.py of 0.19.0.
    trusted = str(provider.get("ssl_ca_cert") or "")
    url = f"{provider['base_url']}/models" if provider.get("base_url") and name != OWN_PROVIDER else ""
    status, body = ask("GET", url, key=key, authorities=trusted) if url else (0, {})
    return {
        "name": chosen.get("default", ""),
        "key_variable": variable,
        "has_key": bool(key),
        "own": name == OWN_PROVIDER,
        "router_status": status,
        "offered": sorted(word(part(entry).get("id")) for entry in listed(body.get("data"))),
        "reason": word(body.get("reason")),
    }


def release() -> "dict[str, object]":
    """The running slot: its name and its record."""
    try:
        slot = os.readlink("/opt/hermes/current").rpartition("/")[2]
    except OSError:
        return {}
    return {**parsed(read("/opt/hermes/current/release.json")), "id": slot}


def observe() -> "dict[str, object]":
    """Collect all observations except a chat turn."""
    environment, properties = variables(), unit()
    pid = int(properties.get("MainPID") or 0)
    key = environment.get("API_SERVER_KEY", "")
    alive_status, alive = ask("GET", api("/health"))
    status, detailed = ask("GET", api("/health/detailed"), key=key) if alive_status else (0, {})
    checks = part(detailed, "readiness", "checks")
    return {
        "unit": properties,
        "identity": parsed(read("/etc/hermes-node/identity.json")) or None,
        "release": release(),
        "handed": bool(parsed(read("/etc/hermes-node/instance.json"))),
        "alive": {"status": alive_status, "version": word(alive.get("version")), "reason": word(alive.get("reason"))},
        "key_digest": hashlib.sha256(key.encode()).hexdigest() if key else "",
        "detailed": {
            "status": status,
            "verdict": word(detailed.get("status")),
            "state": word(detailed.get("gateway_state")),
            "failing": sorted(name[:300] for name in checks if part(checks, name).get("status") != "ok"),
        },
        "model": model(environment),
        "home": home(pid),
    }


def chat(session: str) -> "dict[str, object]":
    """One turn in a separate session, which is removed afterwards; none by a user's own provider, who would bill it."""
    if part(parsed(read("/etc/hermes/config.yaml")), "model").get("provider") == f"custom:{OWN_PROVIDER}":
        return {"own": True}
    key = variables().get("API_SERVER_KEY", "")
    body_sent = {"messages": [{"role": "user", "content": "Answer with the one word: pong"}], "stream": False}
    status, body = ask("POST", api("/v1/chat/completions"), key=key, body=body_sent, session=session, timeout_s=CHAT_S)
    removed, _ = ask("DELETE", api(f"/api/sessions/{session}"), key=key)
    choice = part(next(iter(listed(body.get("choices"))), None))
    finish, error = word(choice.get("finish_reason")), body.get("error")
    return {
        "status": status,
        "answered": bool(part(choice, "message").get("content")) and finish != "error",
        "finish": finish,
        "error": word(part(error).get("message") if isinstance(error, dict) else body.get("reason")),
        "session_removed": removed in GONE,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(observe() if sys.argv[1] == "observe" else chat(sys.argv[2])))
