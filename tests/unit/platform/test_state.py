"""What a platform's host says of itself, read."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hermesops.platform.state import ServiceState, parse_host
from tests.support.fakes.credentials import authority_in

UNITS = """Type=notify
NRestarts=2
Id=hermes-platform-postgresql.service
ActiveState=active
UnitFileState=enabled

Type=exec
NRestarts=0
Id=hermesops-worker.service
ActiveState=inactive
UnitFileState=disabled

Type=exec
NRestarts=7
Id=hermesops-monitor.service
ActiveState=activating
UnitFileState=enabled

Type=oneshot
NRestarts=0
Id=hermes-platform-postgresql-backup@full.service
ActiveState=inactive
UnitFileState=static

Type=oneshot
NRestarts=0
Id=hermesops-migrate.service
ActiveState=failed
UnitFileState=enabled
"""
BACKUPS = '[{"backup": [{"timestamp": {"start": 1, "stop": 1795680000}}, {"timestamp": {"start": 1, "stop": 5}}]}]'


def said(**other: str) -> dict[str, str]:
    return {"units": "", "packages": "", "hermesops": "", "backups": "", "certificate": "", **other}


def test_a_service_is_healthy_when_it_does_as_it_is_told() -> None:
    host = parse_host(said(units=UNITS))
    assert host.services == (
        ServiceState("hermes-platform-postgresql", "active", is_healthy=True, restarts=2),
        ServiceState(
            "hermes-platform-postgresql-backup@full", "inactive", is_healthy=True, restarts=0, is_passing=True
        ),
        ServiceState("hermesops-migrate", "failed", is_healthy=False, restarts=0, is_passing=True),
        ServiceState("hermesops-monitor", "activating", is_healthy=False, restarts=7),
        ServiceState("hermesops-worker", "inactive", is_healthy=True, restarts=0),
    )
    assert not host.is_healthy


def test_versions_backups_and_certificate_are_read(tmp_path: Path) -> None:
    certificate = authority_in(tmp_path).serve(["127.0.0.1"], life=timedelta(days=90)).pem
    host = parse_host(
        said(
            packages="postgresql-15 15.14-0+deb12u1\n",
            hermesops="hermesops 0.1.0\n",
            backups=BACKUPS,
            certificate=f"\n{certificate}",
        )
    )
    assert host.versions == {"postgresql-15": "15.14-0+deb12u1", "hermesops": "0.1.0"}
    assert host.database_backup == datetime.fromtimestamp(1795680000, UTC)
    assert host.certificate_until
    assert timedelta(days=89) < host.certificate_until - datetime.now(UTC) < timedelta(days=91)


def test_a_host_that_has_nothing_yet_says_so() -> None:
    host = parse_host(said(backups="ERROR: no stanza", certificate="cat: no such file"))
    assert (host.services, host.versions, host.database_backup, host.certificate_until) == ((), {}, None, None)
