"""The services of a platform's host: the log of one, and its restart."""

import asyncio
import shlex
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime

from hermesops.base.narration import Reporter
from hermesops.errors import HermesError, Hint, PartlyDoneError, UnavailableError, UsageError
from hermesops.observability.telemetry.logs.following import follow
from hermesops.platform.host import run_on_host
from hermesops.platform.state import HostState, ServiceState, observe_host
from hermesops.vendor.channel import Channel
from hermesops.vendor.channel.lines import stdout_lines

_PREFIX = "hermes-platform-"
_STABLE_S = 3
"""Seconds after which a service that ends at once has ended again."""

_RESTART_S = 300.0
_LOG_S = 30.0
_FOLLOW_S = 600.0
"""Seconds for which one connection follows a log; nothing but this ends its command when the reader has gone."""


@dataclass(frozen=True)
class ServiceLog:
    """The newest lines of a service's log, oldest first; none where it could not be read.

    Attributes:
        problem: Why it could not be read.
    """

    service: str
    lines: tuple[str, ...] = ()
    problem: HermesError | None = None


@dataclass(frozen=True)
class PlatformServices:
    """Reads and restarts the services of a host.

    Args:
        channel: To the host.
        note: Notes in the audit that services are restarted, by their names, and why.
    """

    channel: Channel
    note: Callable[[Sequence[str], str], None]

    async def logs(self, name: str, most: int) -> list[ServiceLog]:
        """The newest lines of each service's log; one that cannot be read hides no other.

        Args:
            name: Of the service, as ``chosen`` takes it.
            most: Lines of each.

        Raises:
            UsageError: There is no such service.
            UnavailableError: The host does not say which services it has.
        """
        services = chosen(await observe_host(self.channel), name)
        return list(await asyncio.gather(*(self._log(service, most) for service in services)))

    async def follow(self, name: str, most: int, report: Reporter) -> AsyncGenerator[str, None]:
        """Yield the newest lines of a service's log and then new ones, until the caller stops.

        Args:
            name: Of the service, as ``chosen`` takes it.
            most: Lines of before.
            report: Takes the narration about connections.

        Raises:
            UsageError: No service is named, or there is none of that name.
            UnavailableError: The host does not answer at first.
        """
        if not name:
            raise UsageError("name the service to follow", hint=Hint(("platform", "show"), "lists them"))
        [service] = chosen(await observe_host(self.channel), name)

        def connect(lines: int | None, since: datetime | None) -> AsyncGenerator[str, None]:
            begin = f" --since=@{since.timestamp():.0f}" if since else ""
            command = f"{_journal(service, lines)}{begin} --follow"
            return stdout_lines(self.channel.stream(command, timeout_s=_FOLLOW_S))

        followed = follow(connect, name=service.name, most=most, since=None, report=report)
        async with aclosing(followed) as lines:
            async for line in lines:
                yield line

    async def restart(self, name: str, why: str) -> list[ServiceState]:
        """Restart a service, and look at it once it could have ended again; how it is then.

        Args:
            name: Of the service, as ``chosen`` takes it; without one nothing that runs is touched.
            why: For the audit.

        Raises:
            UsageError: There is no such service.
            PartlyDoneError: One of them does not stay up.
            UnavailableError: The host does not answer.
        """
        services = chosen(await observe_host(self.channel), name)
        names = [service.name for service in services]
        if not names:
            return []
        self.note(names, why)
        units = shlex.join(service.unit for service in services)
        # A unit that failed too often is not started any more, until that is forgotten.
        restart = (
            f"systemctl reset-failed -- {units} 2>/dev/null; systemctl restart -- {units}; sleep {_STABLE_S}; true"
        )
        await run_on_host(self.channel, restart, what="to restart services", timeout_s=_RESTART_S)
        now = [service for service in (await observe_host(self.channel)).services if service.name in names]
        down = [service.name for service in now if not service.is_healthy]
        if down:
            raise PartlyDoneError(
                f"{', '.join(down)} did not stay up", hint=Hint(("platform", "logs", down[0]), "says why")
            )
        return now

    async def _log(self, service: ServiceState, most: int) -> ServiceLog:
        try:
            lines = await run_on_host(self.channel, _journal(service, most), timeout_s=_LOG_S)
        except HermesError as error:
            return ServiceLog(service.name, problem=error)
        return ServiceLog(service.name, tuple(lines.splitlines()))


def _journal(service: ServiceState, most: int | None) -> str:
    lines = "all" if most is None else most
    return f"journalctl --unit={shlex.quote(service.unit)} --lines {lines} --no-pager --output short-iso --quiet"


def unread(logs: Sequence[ServiceLog]) -> HermesError | None:
    """The error that names the logs that could not be read; none where all were."""
    failed = [(log.service, log.problem) for log in logs if log.problem]
    if not failed:
        return None
    names, (_, first) = ", ".join(name for name, _ in failed), failed[0]
    kind = UnavailableError if len(failed) == len(logs) else PartlyDoneError
    return kind(f"the log of {names} could not be read: {first.message}", hint=first.hint)


def chosen(host: HostState, name: str) -> Sequence[ServiceState]:
    """The service of a name; without a name all that are not as they should be.

    Args:
        name: Of its unit, also without ``.service``, and without ``hermes-platform-``, as alerts say it.

    Raises:
        UsageError: There is none of that name.
    """
    if not name:
        return [service for service in host.services if not service.is_healthy]
    services = [service for service in host.services if {service.name, service.unit} & {name, _PREFIX + name}]
    if not services:
        known = ", ".join(service.name.removeprefix(_PREFIX) for service in host.services)
        raise UsageError(f"the platform's host has no service {name!r}", hint=f"it has {known}")
    return services
