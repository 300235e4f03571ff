"""The request handlers of a simulated machine's vendor daemon: health, commands, files.

Source: ``hermesops.localcloud.vendor_daemon``, whose calls and answers these are.
"""

import fnmatch
import re
import stat
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from hermesops.localcloud.drivers.sim.daemon.http_peer import Request
from hermesops.localcloud.drivers.sim.daemon.shell import Done, run
from hermesops.localcloud.drivers.sim.disk import ACCOUNTS, normal
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.store import Entry
from hermesops.localcloud.vendor_daemon.files import mode_of, path_of
from hermesops.localcloud.vendor_daemon.http import HttpError, object_in

_MAX_RESULTS = 1000
_NAMES = {uid: name for name, uid in ACCOUNTS.items()}


def answer(guest: Guest, call: Request) -> dict[str, Any] | bytes:
    """Answer a request with a finite answer: JSON, or a file's content.

    Raises:
        HttpError: The answer has a status other than 200.
    """
    serve = _CALLS.get((call.method, call.path.rstrip("/")))
    if serve is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "no_such_call", f"there is no {call.method} {call.path}")
    return serve(guest, call)


def _health(guest: Guest, _: Request) -> dict[str, Any]:
    return {
        "status": "ok",
        "booted": True,
        "state": "running",
        "boot_id": guest.boot_id,
        "uptime_s": round(guest.uptime_s, 2),
        "bootstrapped": True,
    }


def _executed(guest: Guest, call: Request) -> dict[str, Any]:
    done = execute(guest, call)
    return {"exit_code": done.code, "stdout": done.out, "stderr": done.err, "duration_ms": 1}


def execute(guest: Guest, call: Request) -> Done:
    """Run the command of a request, within its limit."""
    body = object_in(call.body)
    command, user, limit_s = body.get("command"), body.get("user", "root"), body.get("timeout", 60)
    if not isinstance(command, str) or not command:
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_request", "command is missing")
    if user not in ACCOUNTS:
        raise HttpError(HTTPStatus.NOT_FOUND, "user_not_found", f"there is no user {user}")
    if not isinstance(limit_s, (int, float)) or isinstance(limit_s, bool) or limit_s <= 0:
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_request", "timeout must be a positive number of seconds")
    done = run(guest, command)
    if guest.slept_s > limit_s:
        guest.slept_s = float(limit_s)
        raise HttpError(
            HTTPStatus.REQUEST_TIMEOUT, "timeout", f"the command did not end within {limit_s:g} s and was killed"
        )
    return done


def _path(call: Request) -> str:
    return normal(str(path_of(call.query.get("path"))))


def _found(guest: Guest, path: str) -> Entry:
    entry = guest.disk.entry(path)
    if entry is None:
        raise HttpError(HTTPStatus.NOT_FOUND, "not_found", f"{path} does not exist")
    return entry


def _file(guest: Guest, path: str) -> Entry:
    entry = _found(guest, path)
    if not stat.S_ISREG(entry.mode):
        raise HttpError(HTTPStatus.BAD_REQUEST, "not_a_file", f"{path} is not a regular file")
    return entry


def _upload(guest: Guest, call: Request) -> dict[str, Any]:
    path = _path(call)
    if guest.disk.is_folder(path):
        raise HttpError(HTTPStatus.BAD_REQUEST, "is_directory", f"{path} is a directory")
    if call.query.get("overwrite", "true") == "false" and guest.disk.entry(path):
        raise HttpError(HTTPStatus.CONFLICT, "exists", f"{path} exists")
    guest.disk.put(path, Entry(stat.S_IFREG | mode_of(call.query.get("mode"), 0o644), 0, 0, call.body))
    return {"path": path, "size": len(call.body)}


def _described(path: str, entry: Entry) -> dict[str, Any]:
    return {
        "name": path.rpartition("/")[2],
        "path": path,
        "type": _kind(entry),
        "size": len(entry.data),
        "mode": stat.filemode(entry.mode),
        "mode_bits": f"{stat.S_IMODE(entry.mode):o}",
        "owner": _NAMES.get(entry.uid, str(entry.uid)),
        "group": _NAMES.get(entry.gid, str(entry.gid)),
        "mod_time": "1970-01-01T00:00:00Z",
        "symlink_target": entry.data.decode() if stat.S_ISLNK(entry.mode) else None,
    }


def _kind(entry: Entry) -> str:
    return "dir" if stat.S_ISDIR(entry.mode) else "file"


def _exists(guest: Guest, call: Request) -> dict[str, Any]:
    path = _path(call)
    entry = guest.disk.entry(path)
    return {"path": path, "exists": entry is not None, "type": _kind(entry) if entry else None}


def _listing(guest: Guest, call: Request) -> dict[str, Any]:
    path = _path(call)
    if not guest.disk.is_folder(path):
        _file(guest, path)
        raise HttpError(HTTPStatus.BAD_REQUEST, "failed", f"{path}: Not a directory")
    depth = int(call.query.get("depth") or 1)
    begin = path.rstrip("/").count("/") + 1
    below = guest.disk.below(path)
    entries = [_described(name, entry) for name, entry in below.items() if name.count("/") - begin < depth]
    return {"path": path, "entries": entries}


def _find(guest: Guest, call: Request) -> dict[str, Any]:
    path, include = _path(call), call.query.get("include") or "*"
    _found(guest, path)
    try:
        pattern = re.compile(call.query.get("pattern") or "")
    except re.error as error:
        raise HttpError(HTTPStatus.BAD_REQUEST, "bad_request", f"pattern: {error}") from error
    files = {name: entry for name, entry in guest.disk.below(path).items() if stat.S_ISREG(entry.mode)}
    matches = [
        {"file": name, "line": number, "content": line}
        for name, entry in files.items()
        if fnmatch.fnmatch(name.rpartition("/")[2], include)
        for number, line in enumerate(entry.data.decode(errors="replace").splitlines(), start=1)
        if pattern.search(line)
    ]
    limit = min(_MAX_RESULTS, int(call.query.get("max_results") or 100))
    shown = matches[:limit]
    return {"matches": shown, "truncated": len(matches) > limit, "total": len(shown)}


def _folder(guest: Guest, call: Request) -> dict[str, Any]:
    body = {**object_in(call.body), **call.query}
    path = normal(str(path_of(body.get("path"))))
    created = not guest.disk.is_folder(path)
    if created:
        guest.disk.put(path, Entry(stat.S_IFDIR | mode_of(body.get("mode"), 0o755), 0, 0, b""))
    return {"path": path, "created": created}


def _delete(guest: Guest, call: Request) -> dict[str, Any]:
    path = _path(call)
    if path.count("/") == 1:
        raise HttpError(HTTPStatus.FORBIDDEN, "protected", f"{path} is protected")
    _found(guest, path)
    if guest.disk.below(path) and call.query.get("recursive", "false") != "true":
        raise HttpError(HTTPStatus.BAD_REQUEST, "not_empty", f"{path} is not empty")
    guest.disk.remove(path)
    return {"deleted": True, "path": path}


_CALLS: Mapping[tuple[str, str], Callable[[Guest, Request], dict[str, Any] | bytes]] = {
    ("GET", "/healthz"): _health,
    ("POST", "/toolbox/process/execute"): _executed,
    ("GET", "/toolbox/process/list"): lambda guest, _: {"processes": guest.processes()},
    ("GET", "/toolbox/files"): _listing,
    ("DELETE", "/toolbox/files"): _delete,
    ("GET", "/toolbox/files/download"): lambda guest, call: _file(guest, _path(call)).data,
    ("GET", "/toolbox/files/exists"): _exists,
    ("GET", "/toolbox/files/info"): lambda guest, call: _described(_path(call), _found(guest, _path(call))),
    ("GET", "/toolbox/files/find"): _find,
    ("POST", "/toolbox/files/folder"): _folder,
    ("POST", "/toolbox/files/upload"): _upload,
}
