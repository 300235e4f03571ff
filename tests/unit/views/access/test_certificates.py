"""The shape of a certificate: programs rely on it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.model.access.certificate import Certificate
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.views.access.certificates import certificate

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ONE = Certificate("a1", "k" * 64, MachineId("m-1"), InstanceId("i-1"), CellName("cell1"), NOW, NOW + timedelta(days=7))


def test_a_certificate() -> None:
    assert certificate("ada", ONE, NOW) == {
        "machine": "ada",
        "machine_id": "m-1",
        "instance_id": "i-1",
        "cell": "cell1",
        "state": "good",
        "issued_at": "2026-03-01T12:00:00+00:00",
        "not_after": "2026-03-08T12:00:00+00:00",
        "revoked_at": None,
        "why": "",
        "serial": "a1",
    }


def test_its_state_is_one_word() -> None:
    revoked = replace(ONE, revoked_at=NOW, why="lost")
    assert certificate("ada", ONE, ONE.not_after)["state"] == "expired"
    assert certificate("ada", revoked, NOW)["state"] == "revoked"
    assert certificate("ada", revoked, ONE.not_after)["state"] == "revoked"
