"""A simulated machine writes its figures by the same hermes-node as a real one."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from hermesops.localcloud.drivers.sim.agent.gateway import MOOD
from hermesops.localcloud.drivers.sim.disk import HOME, UID
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.store import Entry, Record, Store
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import Identity, Payload, Secrets

_PAYLOAD = "/run/hermes-node/payload.json"


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    store = Store(tmp_path / "world.db")
    record = Record("m-1", 1, "edge", "token", None, 1, 1024, 10, is_on=True, boots=1)
    store.put(record)
    return Guest(store, record)


def node(guest: Guest, *words: str) -> dict[str, Any]:
    ended, out, err = guest.node(words)
    assert ended == 0, err
    answer: dict[str, Any] = json.loads(out)
    return answer


def metrics(guest: Guest) -> dict[str, float]:
    assert node(guest, "metrics")["failed"] == {}
    entry = guest.disk.entry(str(Layout().metrics))
    assert entry is not None
    lines = [line for line in entry.data.decode().splitlines() if not line.startswith("#")]
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}


def put(guest: Guest, path: str, data: bytes, *, uid: int = 0) -> None:
    guest.disk.put(path, Entry(stat.S_IFREG | 0o600, uid, uid, data))


def test_before_and_after_it_has_a_user(guest: Guest) -> None:
    series_values = metrics(guest)
    assert series_values["hermes_personalised"] == series_values["hermes_gateway_up"] == 0
    assert "hermes_agent_up" not in series_values
    payload = Payload(Identity("i-1", "u-1", "light", "c1", 1), Secrets("k" * 64, "t" * 40), "http://10.0.0.1/v1")
    put(guest, _PAYLOAD, payload.to_json())
    node(guest, "personalise", _PAYLOAD, "--wait", "5")
    series_values = metrics(guest)
    assert (
        series_values["hermes_personalised"]
        == series_values["hermes_gateway_up"]
        == series_values["hermes_agent_up"]
        == 1
    )
    assert [series for series in series_values if series.startswith("hermes_release_info")]

    log = f"{HOME}/logs/errors.log"
    guest.disk.put(f"{HOME}/logs", Entry(stat.S_IFDIR | 0o700, UID, UID, b""))
    line = b"2027-01-15 09:00:00,123 ERROR a: b\n"
    put(guest, log, line, uid=UID)
    assert metrics(guest)["hermes_gateway_errors_total"] == 1
    put(guest, log, line * 3, uid=UID)
    assert metrics(guest)["hermes_gateway_errors_total"] == 3
    put(guest, f"{HOME}/state.db", b"x" * 100, uid=UID)
    assert metrics(guest)['hermes_database_bytes{database="state"}'] == 100
    assert node(guest, "databases") == {"intact": {}}

    put(guest, MOOD, b"crashed")
    series_values = metrics(guest)
    assert series_values["hermes_gateway_up"] == series_values["hermes_agent_up"] == 0
    assert node(guest, "recover")["started"] is False
