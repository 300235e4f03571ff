"""``hermesops platform logs`` and ``restart``: what they do to the host, and where there is none."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from hermesops.cli import context
from hermesops.cli.commands.platform import services
from hermesops.errors import PartlyDoneError, UnavailableError, UsageError
from hermesops.platform.services import ServiceLog
from hermesops.platform.state import ServiceState
from tests.support.fakes.parts import part


class Host:
    """The platform's host of a local world."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.unread: list[ServiceLog] = []

    async def services(self) -> Any:  # noqa: ANN401 - stands for them
        return part(logs=self.logs, restart=self.restart)

    async def logs(self, name: str, most: int) -> list[ServiceLog]:
        lines = tuple(f"line {each}" for each in range(most))
        return [*self.unread, ServiceLog(f"hermes-platform-{name}", lines)] if name else self.unread

    async def restart(self, name: str, why: str) -> list[ServiceState]:
        self.done.append(f"restarted {name}: {why}")
        return [ServiceState(f"hermes-platform-{name}", "active", is_healthy=True, restarts=0)] if name else []


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    host = Host()

    def run_platform(_: object, work: Callable[[Any], Awaitable[Any]]) -> Any:  # noqa: ANN401 - as the work says
        async def whole() -> Any:  # noqa: ANN401 - as above
            return await work(host)

        return asyncio.run(whole())

    monkeypatch.setattr(context, "compose", lambda: part(env=part(is_local=True, name="local")))
    monkeypatch.setattr(context, "run_platform", run_platform)
    return host


def test_a_restart_is_done_for_the_reason_that_is_given(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    services.restart(reason="it hangs", service="nginx", yes=True)
    assert host.done == ["restarted nginx: it hangs"]
    assert capsys.readouterr().out == "hermes-platform-nginx is active\n"


def test_lines_stand_below_the_service_that_wrote_them(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    services.logs(service="loki", lines=2)
    assert capsys.readouterr().out == "== hermes-platform-loki\nline 0\nline 1\n"
    assert host.done == []


def test_a_log_that_cannot_be_read_is_named_beside_the_others(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    host.unread = [ServiceLog("hermes-platform-ingest", problem=UnavailableError("no journal"))]
    with pytest.raises(PartlyDoneError, match="log of hermes-platform-ingest could not be read: no journal"):
        services.logs(service="loki", lines=1)
    shown = "== hermes-platform-ingest\nnot read: no journal\n== hermes-platform-loki\nline 0\n"
    assert capsys.readouterr().out == shown


@pytest.mark.usefixtures("host")
def test_without_a_service_that_is_down_there_is_nothing_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    services.logs(service="", lines=2)
    services.restart(reason="t", service="", yes=True)
    assert capsys.readouterr().out == "no service is down\nno service is down\n"


def test_on_aws_both_name_the_way_to_a_host(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "compose", lambda: part(env=part(is_local=False, name="staging")))
    with pytest.raises(UsageError, match="of environment staging are on AWS") as logs:
        services.logs(service="nginx", lines=1)
    assert "journalctl shows its log" in str(logs.value.hint)
    with pytest.raises(UsageError) as restart:
        services.restart(reason="t", service="nginx", yes=True)
    assert "systemctl restarts it" in str(restart.value.hint)
    assert host.done == []
