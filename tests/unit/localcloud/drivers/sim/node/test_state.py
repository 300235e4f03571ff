"""A simulated agent's state is copied, restored, drained and fenced by the same hermes-node as a real one's."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from hermesops.localcloud.drivers.sim.disk import HOME, UID
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.store import Entry, Record, Store
from hermesops.wire.protocol import Identity, Payload, Secrets
from hermesops.wire.settings import Settings

_PAYLOAD = "/run/hermes-node/payload.json"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "world.db")


def _guest(store: Store, number: int = 1) -> Guest:
    record = Record(f"m-{number}", number, "edge", "token", None, 1, 1024, 10, is_on=True, boots=1)
    store.put(record)
    return Guest(store, record)


def _write(guest: Guest, path: str, data: bytes, *, uid: int = 0) -> None:
    guest.disk.put(path, Entry(stat.S_IFREG | 0o600, uid, uid, data))


def _node(guest: Guest, *words: str, code: int = 0) -> dict[str, Any]:
    ended, out, err = guest.node(words)
    assert ended == code, err
    answer: dict[str, Any] = json.loads(out)
    return answer


def _personalise(guest: Guest, epoch: int = 1) -> None:
    job = {"cron": "0 9 * * *", "prompt": "Good morning"}
    payload = Payload(
        Identity("i-1", "u-1", "light", "c1", epoch),
        Secrets("k" * 64, "hm1.i-1.1." + "a" * 40),
        "http://10.0.0.1/v1",
        Settings(cron=(job,)),
    )
    _write(guest, _PAYLOAD, payload.to_json())
    _node(guest, "personalise", _PAYLOAD, "--wait", "5")


def _repository(
    guest: Guest, command: str, *, code: int = 0, opened_by: str = "first", snapshot: str = ""
) -> dict[str, Any]:
    fields = {"version": 1, "repository": "s3:http://10.0.0.1:9/b/i-1", "password": opened_by, "snapshot": snapshot}
    _write(guest, _PAYLOAD, json.dumps(fields).encode())
    return _node(guest, command, _PAYLOAD, code=code)


def test_a_state_moves_from_one_machine_to_another(store: Store) -> None:
    first, second = _guest(store), _guest(store, 2)
    _personalise(first)
    _write(first, f"{HOME}/memories/USER.md", b"Has a sister.", uid=UID)
    before = _node(first, "state")["state"]
    assert (before["memory"]["count"], before["cron"]["count"]) == (1, 1)
    repository = _repository(first, "backup")
    assert _repository(first, "backup")["added"] == 0
    _node(first, "fence")
    restored = _repository(second, "restore", snapshot=repository["snapshot"])
    assert restored["state"] == before == _node(second, "state")["state"]
    exported = [json.loads(line) for line in second.node(["export"])[1].splitlines()]
    assert exported[-1]["counts"]["memory"] == 1


def test_what_was_made_since_is_gone_after_a_restore(store: Store) -> None:
    guest = _guest(store)
    _personalise(guest)
    repository = _repository(guest, "backup")
    _write(guest, f"{HOME}/memories/USER.md", b"since", uid=UID)
    assert "runs" in _repository(guest, "restore", code=3)["error"]
    _node(guest, "fence")
    _repository(guest, "restore", snapshot=repository["snapshot"])
    assert _node(guest, "state")["state"] == repository["state"]


def test_another_password_and_an_unknown_snapshot_are_refused(store: Store) -> None:
    guest = _guest(store)
    _repository(guest, "backup")
    assert "password" in _repository(guest, "backup", code=3, opened_by="another")["error"]
    assert "no snapshot" in _repository(guest, "restore", code=3, snapshot="0" * 64)["error"]


def test_a_fenced_gateway_is_started_by_nothing(store: Store) -> None:
    guest = _guest(store)
    _personalise(guest)
    assert _node(guest, "drain")["drained"]
    assert _node(guest, "fence") == {"fenced": True}
    guest.units(["start", "hermes-gateway.service"])
    guest.boot()
    assert not guest.gateway.is_active
    assert _node(guest, "status")["fenced"]
    _personalise(guest, epoch=2)
    assert guest.gateway.is_active
