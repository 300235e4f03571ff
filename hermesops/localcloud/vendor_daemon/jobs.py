"""Reads what the toolbox is asked to run: who, where, for how long, and with which variables. Runs nothing."""

import pwd
from dataclasses import dataclass

from .http import HttpError

DEFAULT_TIMEOUT_S = 60.0
CODE_TIMEOUT_S = 30.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LANGUAGES = {
    "python": "python3 -",
    "python3": "python3 -",
    "bash": "bash -s",
    "sh": "sh -s",
    "shell": "sh -s",
    "node": "node -",
    "javascript": "node -",
    "ruby": "ruby -",
}
"""The interpreter of each language. The vendor's list has ``go`` and ``typescript`` too, which read no standard input.

A shell starts it, so that a missing interpreter is exit code 127 with the shell's own words: of this call the vendor
documents the answers 200, 401 and 408 alone.
"""


@dataclass(frozen=True)
class Job:
    """What to run, for whom, where and how long (seconds)."""

    arguments: list[str]
    user: pwd.struct_passwd
    cwd: str
    env: dict[str, str]
    timeout_s: float
    source: bytes = b""


def _text(body: dict[str, object], key: str, default: str) -> str:
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or "\0" in value:
        raise HttpError(400, "bad_request", f"{key} must be a string")
    return value


def _seconds(body: dict[str, object], default: float) -> float:
    value = body.get("timeout")
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
        raise HttpError(400, "bad_request", "timeout must be a positive number of seconds")
    return float(value)


def _environment(body: dict[str, object], user: pwd.struct_passwd) -> dict[str, str]:
    given = body.get("env") or {}
    if not isinstance(given, dict):
        raise HttpError(400, "bad_request", "env must be an object of strings")
    base = {"PATH": _PATH, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "LANG": "C.UTF-8"}
    return {**base, "SHELL": user.pw_shell or "/bin/sh", **{str(key): str(value) for key, value in given.items()}}


def _account(body: dict[str, object]) -> pwd.struct_passwd:
    name = _text(body, "user", "root")
    try:
        return pwd.getpwnam(name)
    except KeyError as error:
        raise HttpError(404, "user_not_found", f"there is no user {name}") from error


def job_of_command(body: dict[str, object]) -> Job:
    """Read the body of ``process/execute``."""
    command = _text(body, "command", "")
    if not command:
        raise HttpError(400, "bad_request", "command is missing")
    user = _account(body)
    cwd = _text(body, "cwd", user.pw_dir)
    seconds = _seconds(body, DEFAULT_TIMEOUT_S)
    return Job(["/bin/sh", "-c", command], user, cwd, _environment(body, user), seconds)


def job_of_code(body: dict[str, object]) -> Job:
    """Read the body of ``process/code-run``; the code goes to the interpreter's standard input."""
    language = _text(body, "language", "python")
    if language not in _LANGUAGES:
        raise HttpError(400, "bad_request", f"language must be one of {', '.join(sorted(_LANGUAGES))}")
    user = _account(body)
    source = _text(body, "code", "").encode()
    seconds = _seconds(body, CODE_TIMEOUT_S)
    return Job(
        ["/bin/sh", "-c", f"exec {_LANGUAGES[language]}"], user, user.pw_dir, _environment(body, user), seconds, source
    )
