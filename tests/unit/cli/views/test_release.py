"""The shapes of releases: programs rely on them."""

from datetime import UTC, datetime

from hermesops.cli.views import release
from hermesops.machines.release import Kept
from hermesops.machines.release.index import About
from hermesops.views.machines import releases
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
        "agents": 2,
    }
    assert releases.kept(Kept(LOCK, About(AT, "ada", "why"), ""), ("ada", "ben")) == shape
    unknown = {"created_at": None, "who": "", "note": "", "state": "was revoked: no", "agents": 0}
    assert releases.kept(Kept(LOCK, About(), "was revoked: no"), ()) == shape | unknown


def test_agents_that_run_none_of_the_listed_releases_are_counted_beside_them() -> None:
    elsewhere = releases.elsewhere({LOCK.id: ("ada",), "unknown": ("ben", "cleo"), "0.18.0-old": ("dora",)}, {LOCK.id})
    assert elsewhere == {"agents_of_unknown_release": 2, "agents_of_other_releases": {"0.18.0-old": 1}}
    assert release.elsewhere_lines(elsewhere) == [
        "2 agents with an unknown release: hermesops instance list --where release=unknown",
        "1 agent with 0.18.0-old, which is not in the store",
    ]
    assert release.elsewhere_lines(releases.elsewhere({LOCK.id: ("ada",)}, {LOCK.id})) == []


def test_a_release_names_the_first_agents_that_run_it() -> None:
    assert release.agents_line(()) == "  agents that run it: 0"
    assert release.agents_line(("ada", "be\nn")) == "  agents that run it: 2 (ada, be n)"
    assert release.agents_line([str(number) for number in range(12)]).endswith("8, 9 +2)")


def test_a_release_that_was_built() -> None:
    assert releases.built(LOCK, is_new=True) == {
        "id": LOCK.id,
        "digest": LOCK.digest,
        "agent": "0.19.0",
        "made": True,
        "files": 9,
        "bytes": 48,
    }


def test_a_release_that_is_shown() -> None:
    assert releases.lock(LOCK) == {
        "id": LOCK.id,
        "digest": LOCK.digest,
        "agent": {"version": "0.19.0", "origin": "index", "config_schema": 33},
        "pythons": {"3.11": {"aiohttp": "3.14.1", "hermes-agent": "0.19.0"}, "3.12": {"hermes-agent": "0.19.0"}},
        "bytes": {"3.11": 41, "3.12": 36},
        "managed": {"config": {"gateway": {"systemd_watchdog_seconds": 30}}, "environment": {"TZ": "UTC"}},
        "site": ["hermes-sandbox.pth"],
        "unit": "2" * 64,
        "skills": "f" * 64,
        "interpreter": None,
        "resources": None,
        "node": {"protocol": 1, "sha256": "3" * 64},
    }


def test_what_was_taken_back() -> None:
    revocations = Revocations().with_revoked(LOCK.id, "no").with_floor("0.19.0")
    assert releases.revocations(revocations) == {"number": 2, "floor": "0.19.0", "revoked": {LOCK.id: "no"}}
    assert releases.revocations(Revocations()) == {"number": 0, "floor": None, "revoked": {}}
