"""Output of ``hermesops platform``."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermesops.cli.views import rendering
from hermesops.views import shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.infra.stacks.platform.outputs import PlatformOutputs
    from hermesops.platform.connect import SettingChange
    from hermesops.platform.services import ServiceLog
    from hermesops.platform.state import HostState, ServiceState


NONE_DOWN = "no service is down"


def show(outputs: "PlatformOutputs[str] | None", host: "HostState | None", *, connected: bool) -> dict[str, Any]:
    """A platform; ``outputs`` are null where it has no stack, ``services`` and more where it is on no single host."""
    seen: dict[str, Any] = {"services": None, "versions": None, "database_backup": None, "certificate_until": None}
    if host:
        seen = {
            "services": services(host.services),
            "versions": dict(host.versions),
            "database_backup": shapes.timestamp(host.database_backup),
            "certificate_until": shapes.timestamp(host.certificate_until),
        }
    healthy = host.is_healthy if host else None
    return {"outputs": outputs.by_name() if outputs else None, "connected": connected, "healthy": healthy, **seen}


def services(found: "Sequence[ServiceState]") -> list[dict[str, object]]:
    """Services of a host."""
    return [
        {"service": one.name, "state": one.state, "healthy": one.is_healthy, "restarts": one.restarts} for one in found
    ]


def logs(found: "Sequence[ServiceLog]") -> list[dict[str, object]]:
    """Logs of services; ``problem`` says why one could not be read."""
    return [
        {
            "service": one.service,
            "lines": list(one.lines),
            "problem": one.problem.message if one.problem else None,
        }
        for one in found
    ]


def log_lines(found: "Sequence[ServiceLog]") -> list[str]:
    """Each service's name, and below it its lines, or why there are none."""
    shown: list[str] = []
    for one in found:
        shown += [f"== {one.service}", *one.lines]
        shown += [f"not read: {one.problem.message}"] if one.problem else []
    return shown


def lines(outputs: "PlatformOutputs[str] | None", host: "HostState | None", *, connected: bool) -> list[str]:
    """The lines of a platform for people."""
    found = rendering.fields({name: value for name, value in outputs.by_name().items() if value}) if outputs else []
    if host:
        backup = f"{_age(host.database_backup)} old" if host.database_backup else "none yet"
        until = f"{host.certificate_until:%Y-%m-%d}" if host.certificate_until else "unknown"
        kept = {"database backup": backup} if outputs else {}
        found += ["", *rendering.fields({**kept, "certificate until": until, **host.versions}), "", _down(host)]
    if outputs is None:
        return [*found, "this local world has no platform, and its monitoring alone"]
    return [*found, "this environment uses it" if connected else "this environment does not use it yet"]


def _down(host: "HostState") -> str:
    down = ", ".join(one.name for one in host.services if not one.is_healthy)
    return f"down: {down}" if down else NONE_DOWN


def changes(found: "tuple[SettingChange, ...]") -> list[dict[str, object]]:
    """Settings that change."""
    return [{"setting": one.name, "before": one.before or None, "after": one.after} for one in found]


def _age(at: datetime) -> str:
    hours, seconds = divmod(int((datetime.now(UTC) - at).total_seconds()), 3600)
    return f"{hours} h" if hours else f"{seconds // 60} min"
