"""Output of ``hermesops platform``: JSON objects and lines."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hermesops.cli.printing.fields import field_lines
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.infra.stacks.platform.outputs import PlatformOutputs
    from hermesops.platform.connect import SettingChange
    from hermesops.platform.services import ServiceLog
    from hermesops.platform.state import HostState, ServiceState


NONE_DOWN = "no service is down"


def show(outputs: "PlatformOutputs[str] | None", host: "HostState | None", *, connected: bool) -> dict[str, Any]:
    """A platform; ``outputs`` are null where it has no stack, ``services`` and more where it is on no single host."""
    state: dict[str, Any] = {"services": None, "versions": None, "database_backup": None, "certificate_until": None}
    if host:
        state = {
            "services": services(host.services),
            "versions": dict(host.versions),
            "database_backup": timestamp(host.database_backup),
            "certificate_until": timestamp(host.certificate_until),
        }
    healthy = host.is_healthy if host else None
    return {"outputs": outputs.by_name() if outputs else None, "connected": connected, "healthy": healthy, **state}


def services(service_states: "Sequence[ServiceState]") -> list[dict[str, object]]:
    """JSON objects of a host's services: state, health and restarts."""
    return [
        {"service": service.name, "state": service.state, "healthy": service.is_healthy, "restarts": service.restarts}
        for service in service_states
    ]


def logs(service_logs: "Sequence[ServiceLog]") -> list[dict[str, object]]:
    """Logs of services; ``problem`` says why one could not be read."""
    return [
        {
            "service": log.service,
            "lines": list(log.lines),
            "problem": log.problem.message if log.problem else None,
        }
        for log in service_logs
    ]


def log_lines(service_logs: "Sequence[ServiceLog]") -> list[str]:
    """Each service's name, and below it its lines, or why there are none."""
    shown: list[str] = []
    for log in service_logs:
        shown += [f"== {log.service}", *log.lines]
        shown += [f"not read: {log.problem.message}"] if log.problem else []
    return shown


def lines(outputs: "PlatformOutputs[str] | None", host: "HostState | None", *, connected: bool) -> list[str]:
    """The lines of a platform for people."""
    shown = field_lines({name: value for name, value in outputs.by_name().items() if value}) if outputs else []
    if host:
        backup = f"{_age(host.database_backup)} old" if host.database_backup else "none yet"
        until = f"{host.certificate_until:%Y-%m-%d}" if host.certificate_until else "unknown"
        beside = {"database backup": backup} if outputs else {}
        shown += ["", *field_lines({**beside, "certificate until": until, **host.versions}), "", _down(host)]
    if outputs is None:
        return [*shown, "this local world has no platform, and its monitoring alone"]
    return [*shown, "this environment uses it" if connected else "this environment does not use it yet"]


def _down(host: "HostState") -> str:
    down = ", ".join(service.name for service in host.services if not service.is_healthy)
    return f"down: {down}" if down else NONE_DOWN


def changes(setting_changes: "tuple[SettingChange, ...]") -> list[dict[str, object]]:
    """JSON objects of settings that ``platform connect`` changes."""
    return [
        {"setting": change.name, "before": change.before or None, "after": change.after} for change in setting_changes
    ]


def _age(at: datetime) -> str:
    hours, seconds = divmod(int((datetime.now(UTC) - at).total_seconds()), 3600)
    return f"{hours} h" if hours else f"{seconds // 60} min"
