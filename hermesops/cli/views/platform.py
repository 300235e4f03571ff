"""Lines about the shared platform, its services and their logs."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermesops.cli.printing.fields import field_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hermesops.infra.stacks.platform.outputs import PlatformOutputs
    from hermesops.platform.services import ServiceLog
    from hermesops.platform.state import HostState


NONE_DOWN = "no service is down"


def log_lines(service_logs: "Sequence[ServiceLog]") -> list[str]:
    """Each service's name, and below it its lines, or why there are none."""
    shown: list[str] = []
    for log in service_logs:
        shown += [f"== {log.service}", *log.lines]
        shown += [f"not read: {log.problem.message}"] if log.problem else []
    return shown


def lines(
    outputs: "PlatformOutputs[str] | None", links: "Mapping[str, str]", host: "HostState | None", *, connected: bool
) -> list[str]:
    """The lines of a platform for people."""
    shown = field_lines({name: value for name, value in outputs.by_name().items() if value}) if outputs else []
    shown += ["", *link_lines(links)] if links else []
    if host:
        backup = f"{_age(host.database_backup)} old" if host.database_backup else "none yet"
        until = f"{host.certificate_until:%Y-%m-%d}" if host.certificate_until else "unknown"
        beside = {"database backup": backup} if outputs else {}
        shown += ["", *field_lines({**beside, "certificate until": until, **host.versions}), "", _down(host)]
    if outputs is None:
        return [*shown, "this local world has no platform, and its monitoring alone"]
    return [*shown, "this environment uses it" if connected else "this environment does not use it yet"]


def link_lines(links: "Mapping[str, str]") -> list[str]:
    """Addresses of the users' half."""
    return field_lines({name.replace("_", " "): url for name, url in links.items()})


def _down(host: "HostState") -> str:
    down = ", ".join(service.name for service in host.services if not service.is_healthy)
    return f"down: {down}" if down else NONE_DOWN


def _age(at: datetime) -> str:
    hours, seconds = divmod(int((datetime.now(UTC) - at).total_seconds()), 3600)
    return f"{hours} h" if hours else f"{seconds // 60} min"
