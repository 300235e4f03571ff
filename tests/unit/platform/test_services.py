"""Services of a platform's host: their logs, and their restart."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest

from hermesops.errors import PartlyDoneError, UnavailableError, UsageError
from hermesops.platform.services import PlatformServices, chosen, unread
from hermesops.platform.state import parse_host
from hermesops.vendor.channel import Completed, Output
from tests.support.fakes.parts import part

_PART = "--- hermesops ---"


class Host:
    """A host whose units do as they are told, except those that do not stay up."""

    def __init__(self, **states: str) -> None:
        self.states = {f"hermes-platform-{name}": state for name, state in states.items()}
        self.broken: set[str] = set()
        self.restarted: list[str] = []
        self.unreadable: set[str] = set()
        self.noted: list[tuple[list[str], str]] = []
        self.done: list[str] = []

    async def run(self, command: str, **_: object) -> Completed:
        if "list-unit-files" in command:
            return Completed(0, f"{self.units()}{_PART}{_PART}{_PART}{_PART}".encode(), b"")
        if "journalctl" in command:
            unit = re.findall(r"--unit=(\S+)\.service", command)[0]
            return Completed(
                int(unit in self.unreadable), f"{unit} said one\n{unit} said two\n".encode(), b"no journal"
            )
        self.done.append("restarted")
        self.restarted = re.findall(r"(\S+)\.service", command.partition("systemctl restart")[2])
        self.states |= {name: "failed" if name in self.broken else "active" for name in self.restarted}
        return Completed(0, b"", b"")

    def units(self) -> str:
        return "\n\n".join(
            f"Id={name}.service\nType=exec\nNRestarts=0\nActiveState={state}\nUnitFileState=enabled"
            for name, state in self.states.items()
        )

    @property
    def services(self) -> PlatformServices:
        channel: Any = part(run=self.run)
        return PlatformServices(channel, self.note)

    def note(self, names: Sequence[str], why: str) -> None:
        self.noted.append((list(names), why))
        self.done.append("noted")


@pytest.fixture
def host() -> Host:
    return Host(ingest="inactive", nginx="active", loki="failed")


async def test_a_followed_log_is_of_one_service_and_of_its_unit(host: Host) -> None:
    commands: list[str] = []

    async def stream(command: str, **_: object) -> AsyncIterator[Output]:
        commands.append(command)
        yield Output("stdout", b"2026-01-02T03:04:05+0000 h s[1]: one\n")

    channel: Any = part(run=host.run, stream=stream)
    services = PlatformServices(channel, host.note)
    async with aclosing(services.follow("ingest", 5, print)) as lines:
        assert await anext(lines) == "2026-01-02T03:04:05+0000 h s[1]: one"
    [command] = commands
    assert command.startswith("journalctl --unit=hermes-platform-ingest.service --lines 5 ")
    assert command.endswith(" --follow")
    for name, problem in {"": "name the service", "nothing": "has no service"}.items():
        with pytest.raises(UsageError, match=problem):
            await anext(services.follow(name, 5, print))


async def test_without_a_name_what_is_down_is_restarted_and_nothing_else(host: Host) -> None:
    done = await host.services.restart("", "t")
    assert host.restarted == ["hermes-platform-ingest", "hermes-platform-loki"]
    assert [(service_state.name, service_state.is_healthy) for service_state in done] == [
        (name, True) for name in host.restarted
    ]
    host.restarted = []
    assert (await host.services.restart("", "t"), host.restarted) == ([], [])
    assert host.noted == [(["hermes-platform-ingest", "hermes-platform-loki"], "t")], "what is not done is not noted"
    assert host.done == ["noted", "restarted"]


async def test_a_restart_of_what_the_host_has_not_is_not_noted(host: Host) -> None:
    with pytest.raises(UsageError, match="no service 'worker'"):
        await host.services.restart("worker", "t")
    assert (host.noted, host.restarted) == ([], [])


async def test_a_service_that_runs_is_restarted_by_its_name_as_alerts_say_it(host: Host) -> None:
    await host.services.restart("nginx", "t")
    assert host.restarted == ["hermes-platform-nginx"]
    await host.services.restart("hermes-platform-nginx", "t")
    assert host.restarted == ["hermes-platform-nginx"]


async def test_one_that_does_not_stay_up_is_named_with_the_way_to_its_log(host: Host) -> None:
    host.broken = {"hermes-platform-loki"}
    with pytest.raises(PartlyDoneError, match="hermes-platform-loki did not stay up") as caught:
        await host.services.restart("", "t")
    assert "platform logs hermes-platform-loki" in str(caught.value.hint)


async def test_the_log_of_what_is_down_is_shown_or_of_the_one_that_is_named(host: Host) -> None:
    service_logs = await host.services.logs("", 2)
    assert [service_log.service for service_log in service_logs] == ["hermes-platform-ingest", "hermes-platform-loki"]
    [service_log] = await host.services.logs("nginx", 2)
    assert service_log.lines == ("hermes-platform-nginx said one", "hermes-platform-nginx said two")


async def test_a_log_that_cannot_be_read_hides_no_other(host: Host) -> None:
    host.unreadable = {"hermes-platform-ingest"}
    service_logs = await host.services.logs("", 2)
    assert [(service_log.service, len(service_log.lines)) for service_log in service_logs] == [
        ("hermes-platform-ingest", 0),
        ("hermes-platform-loki", 2),
    ]
    problem = unread(service_logs)
    assert isinstance(problem, PartlyDoneError)
    assert "hermes-platform-ingest" in problem.message
    assert "hermes-platform-loki" not in problem.message
    assert "no journal" in problem.message


async def test_where_no_log_can_be_read_the_host_is_unavailable(host: Host) -> None:
    host.unreadable = {"hermes-platform-nginx"}
    problem = unread(await host.services.logs("nginx", 2))
    assert isinstance(problem, UnavailableError)
    assert "no journal" in problem.message
    assert unread(await host.services.logs("loki", 2)) is None


def test_a_service_that_the_host_has_not_is_refused_with_those_it_has(host: Host) -> None:
    host_state = {"units": host.units(), "packages": "", "hermesops": "", "backups": "", "certificate": ""}
    with pytest.raises(UsageError, match="no service 'worker; true'") as caught:
        chosen(parse_host(host_state), "worker; true")
    assert str(caught.value.hint) == "it has ingest, loki, nginx"
