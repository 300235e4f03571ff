"""The shapes of releases: programs rely on them."""

from datetime import UTC, datetime

from hermesops.cli.views import release
from hermesops.machines.release import Kept
from hermesops.machines.release.index import About
from hermesops.wire.documents.revocations import Revocations
from tests.unit.wire.documents.test_lock import LOCK

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_a_release_in_a_list() -> None:
    shape = {
        "id": LOCK.id,
        "agent": "0.19.0",
        "origin": "index",
        "pythons": ["3.11", "3.12"],
        "state": "good",
        "created_at": "2026-03-01T12:00:00+00:00",
        "who": "ada",
        "note": "why",
    }
    assert release.kept(Kept(LOCK, About(AT, "ada", "why"), "")) == shape
    unknown = {"created_at": None, "who": "", "note": "", "state": "was revoked: no"}
    assert release.kept(Kept(LOCK, About(), "was revoked: no")) == shape | unknown


def test_a_release_that_was_built() -> None:
    assert release.built(LOCK, made=True) == {
        "id": LOCK.id,
        "digest": LOCK.digest,
        "agent": "0.19.0",
        "made": True,
        "files": 9,
        "bytes": 48,
    }


def test_a_release_that_is_shown() -> None:
    assert release.lock(LOCK) == {
        "id": LOCK.id,
        "digest": LOCK.digest,
        "agent": {"version": "0.19.0", "origin": "index", "config_schema": 33},
        "pythons": {"3.11": {"aiohttp": "3.14.1", "hermes-agent": "0.19.0"}, "3.12": {"hermes-agent": "0.19.0"}},
        "bytes": {"3.11": 41, "3.12": 36},
        "managed": {"config": {"gateway": {"systemd_watchdog_seconds": 30}}, "environment": {"TZ": "UTC"}},
        "site": ["hermes-sandbox.pth"],
        "unit": "2" * 64,
        "skills": "f" * 64,
        "node": {"protocol": 1, "sha256": "3" * 64},
    }


def test_what_was_taken_back() -> None:
    revocations = Revocations().with_revoked(LOCK.id, "no").with_floor("0.19.0")
    assert release.revocations(revocations) == {"number": 2, "floor": "0.19.0", "revoked": {LOCK.id: "no"}}
    assert release.revocations(Revocations()) == {"number": 0, "floor": None, "revoked": {}}
