"""``release check``: ten checks that the release on this machine is unchanged since its installation, and runs.

A rollout runs this on machines that have the release already, and there are thousands: it starts and calls nothing,
and imports no more than reading some files takes. So it must import neither ``machine`` nor what needs it.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hermesops.programs.node.system import files
from hermesops.wire.errors import ExitCode, NodeError
from hermesops.wire.layout import DRAIN_MARKER, UNIT, Layout
from hermesops.wire.protocol import Check

WORDS = ["release", "check"]
_LISTENS = "0A"

Read = Callable[[Path], bytes | None]
Listens = Callable[[int], bool]


def main() -> int:
    """Check this machine and print the result; return the process's exit code."""
    answer, code = check(Layout(), files.read, listens, current=files.link_target)
    print(json.dumps(answer, sort_keys=True))  # noqa: T201 - the program's answer
    return code


def check(
    layout: Layout, read: Read, listens: Listens, *, current: Callable[[Path], Path | None]
) -> tuple[dict[str, Any], ExitCode]:
    """Run all ten checks; return the answer and the exit code."""
    link = current(layout.current)
    release = link.name if link else ""
    record, base = _object(read, layout.releases / release / "release.json"), _object(read, layout.base)
    managed = record.get("managed") or {}
    unit = read(layout.releases / release / UNIT) if record else None
    home = layout.home(str(base.get("home", "")))
    checks = (
        Check("slot", bool(record), "" if record else f"{layout.current} points at no release that is complete"),
        Check("record", record.get("id") == release, str(record.get("id"))),
        Check("unit", unit is not None and read(layout.unit(UNIT)) == unit),
        Check("config", _covers(_object(read, layout.managed / "config.yaml"), managed.get("config") or {})),
        Check("environment", _holds(read(layout.managed / ".env"), managed.get("environment") or {})),
        Check("settled", read(layout.activation) is None),
        Check("unfenced", read(layout.fence) is None and read(layout.restoring) is None),
        Check("accepting", read(home / DRAIN_MARKER) is None),
        Check("owned", read(layout.identity) is not None),
        Check("listening", listens(int(base.get("port") or 0))),
    )
    ok = all(each.ok for each in checks)
    shown = [{"name": each.name, "ok": each.ok, "detail": each.detail} for each in checks]
    return {"release": release or None, "ok": ok, "checks": shown}, ExitCode.OK if ok else ExitCode.FAILED


def listens(port: int) -> bool:
    """Whether a process listens on a port of this machine's loopback.

    Source: proc(5), ``/proc/net/tcp``: local address and state are the second and the fourth column.
    """
    ending = f":{port:04X}"
    for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]:
        words = line.split(None, 4)
        if words[3] == _LISTENS and words[1].endswith(ending):
            return True
    return False


def _object(read: Read, path: Path) -> dict[str, Any]:
    """A JSON object in a file; empty if the file is missing or damaged."""
    try:
        value = json.loads(read(path) or b"{}")
    except (ValueError, NodeError):
        return {}
    return value if isinstance(value, dict) else {}


def _covers(whole: object, part: object) -> bool:
    """Whether a part is contained in the whole, mapping by mapping."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(name in whole and _covers(whole[name], part[name]) for name in part)
    return whole == part


def _holds(environment: bytes | None, part: dict[str, str]) -> bool:
    lines = (environment or b"").decode(errors="replace").splitlines()
    return all(f"{name}='{value}'" in lines for name, value in part.items())
