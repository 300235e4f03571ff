"""Certificates of a platform's host: made once, and again a month before their end."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermesops.errors import UnavailableError
from hermesops.model.access.certificate import CallerName
from hermesops.model.ids import MachineId
from hermesops.platform import host
from hermesops.platform.host import ROLES, CertificatePairs, HostAddress, stages_of
from hermesops.platform.parts.tls import is_good, is_of_caller
from hermesops.vendor.channel import Completed
from tests.support.fakes.credentials import authority_in
from tests.support.fakes.parts import part

AT = HostAddress("hermes-local-platform", MachineId("m-1"), "10.213.0.1")
NAMES = ["10.213.0.1", "127.0.0.1", "platform.hermes.internal"]
LIFE = timedelta(days=90)


def test_a_certificate_is_good_for_its_names_and_authority_until_a_month_before_its_end(tmp_path: Path) -> None:
    authority = authority_in(tmp_path)
    text, now = authority.serve(NAMES, life=LIFE).pem, datetime.now(UTC)
    assert AT.certificate_names == NAMES
    assert is_good(text, NAMES, authority, now)
    assert not is_good(text, NAMES, authority, now + timedelta(days=61))
    assert not is_good(text, ["10.213.0.2", *NAMES[1:]], authority, now)
    assert not is_good(text, NAMES, authority_in(tmp_path, environment="other"), now)
    assert not is_good("", NAMES, authority, now)


def test_a_processs_certificate_is_good_under_its_own_name_alone(tmp_path: Path) -> None:
    authority, now = authority_in(tmp_path), datetime.now(UTC)
    worker, monitor = CallerName("local", "hermesops-worker"), CallerName("local", "hermesops-monitor")
    pem = authority.introduce(worker, life=LIFE).pem
    assert is_of_caller(pem, worker, authority, now)
    assert not is_of_caller(pem, monitor, authority, now)
    assert not is_of_caller(pem, worker, authority, now + timedelta(days=61))


async def test_roles_of_one_run_get_the_same_certificate_and_a_host_that_has_a_good_one_gets_none(
    tmp_path: Path,
) -> None:
    authority, files = authority_in(tmp_path), dict[str, str]()

    async def run(command: str, **_: object) -> Completed:
        text = files.get(command.removeprefix("cat "))
        return Completed(1 if text is None else 0, (text or "").encode(), b"")

    channel: Any = part(run=run)
    pairs = CertificatePairs(channel, authority, "local")
    certificate, key = await pairs.server(AT)
    assert await pairs.server(AT) == (certificate, key)
    client, _ = await pairs.client("hermesops-worker", "/etc/worker.crt")
    files.update({"/etc/hermes-platform/tls/server.crt": certificate, "/etc/worker.crt": client})
    again = CertificatePairs(channel, authority, "local")
    assert await again.server(AT) == ("", "")
    assert await again.client("hermesops-worker", "/etc/worker.crt") == ("", "")
    assert await again.client("hermesops-monitor", "/etc/worker.crt") != ("", "")


async def test_who_waits_for_users_asks_both_processes_by_the_pages_name_and_names_the_one_that_is_silent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    statuses, hosts = {"/health": 200, "/api/hermes/connections": 401, "/relay": 401}, set[str]()

    async def get(_: httpx.AsyncClient, url: str, *, headers: dict[str, str]) -> httpx.Response:
        hosts.add(headers["host"])
        return httpx.Response(statuses[httpx.URL(url).path])

    monkeypatch.setattr(httpx.AsyncClient, "get", get)
    monkeypatch.setattr(host, "_ANSWERS_S", 0.01)
    unused: Any = None
    context: Any = lambda: True  # noqa: E731 - httpx takes it for a context
    platform = host.PlatformHost("local", unused, unused, unused, {}, context, print)
    url, name = "https://10.213.0.1:18091", "https://agents.example/api/hermes"
    await platform.wait_for_users(url, name, has_connections=True, has_connector=True)
    assert hosts == {"agents.example"}
    for path, unit in (
        ("/health", "hermesops-api-1"),
        ("/api/hermes/connections", "hermesops-connections"),
        ("/relay", "hermesops-connector"),
    ):
        monkeypatch.setitem(statuses, path, 503)
        with pytest.raises(UnavailableError, match=unit) as error:
            await platform.wait_for_users(url, name, has_connections=True, has_connector=True)
        assert f"platform logs {unit}" in str(error.value.hint)
        monkeypatch.setitem(statuses, path, 200 if path == "/health" else 401)
    monkeypatch.setitem(statuses, "/api/hermes/connections", 503)
    monkeypatch.setitem(statuses, "/relay", 503)
    await platform.wait_for_users(url, name, has_connections=False)


def test_roles_that_need_nothing_of_each_other_run_side_by_side() -> None:
    assert stages_of(ROLES, side_by_side=True) == [
        [("hermes_base", "hermes_platform_tls")],
        [
            (
                *("hermes_platform_object_store", "hermes_platform_postgresql", "hermes_platform_redis"),
                *("hermes_platform_control", "hermes_platform_api", "hermes_platform_connections"),
                *("hermes_platform_connector", "hermes_platform_console"),
            ),
            ("hermes_platform_monitoring", "hermes_platform_llm_router", "hermes_platform_edge"),
        ],
    ]


def test_side_by_side_or_not_every_role_runs_once_and_after_what_it_needs() -> None:
    beside = stages_of(ROLES, side_by_side=True)
    assert sorted(role for stage in beside for sequence in stage for role in sequence) == sorted(ROLES)
    assert stages_of(ROLES, side_by_side=False) == [[ROLES]]


def test_roles_that_are_not_asked_for_make_no_run_of_their_own() -> None:
    calls = {"hermes_base", "hermes_platform_tls", "hermes_platform_monitoring"}
    assert stages_of(calls, side_by_side=True) == [
        [("hermes_base", "hermes_platform_tls", "hermes_platform_monitoring")]
    ]
    assert stages_of({"hermes_platform_control"}, side_by_side=False) == [[("hermes_platform_control",)]]
