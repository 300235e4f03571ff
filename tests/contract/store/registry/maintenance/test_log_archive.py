"""PostgreSQL is backed up by its log: whether that is archived is told where a copy is asked for, and by doctor."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from hermesops.access.registry_place import RegistryPlace
from hermesops.errors import RefusedError
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.store.registry.maintenance.log_archive import words_of

EARLY, LATE = datetime(2026, 1, 2, 3, 4, tzinfo=UTC), datetime(2026, 1, 2, 5, 6, tzinfo=UTC)


def test_the_words_follow_from_the_newest_success_and_failure() -> None:
    cases = {
        ("off", None, None): "archives no log",
        ("off", LATE, None): "archives no log",
        ("on", None, None): "nothing has been archived yet",
        ("on", EARLY, None): "last at 2026-01-02 03:04 UTC",
        ("always", LATE, EARLY): "last at 2026-01-02 05:06 UTC",
        ("on", EARLY, LATE): "has failed since 2026-01-02 05:06 UTC",
        ("on", None, EARLY): "has failed since 2026-01-02 03:04 UTC",
    }
    wrong = {case: words_of(*case) for case, words in cases.items() if words not in words_of(*case)}
    assert wrong == {}


def test_the_database_itself_says_whether_its_log_is_archived(registry: Registry, registry_url: str) -> None:
    words = "" if registry_url.startswith("sqlite") else "its server archives no log (archive_mode is off)"
    assert registry.log_archive().startswith(words)
    assert bool(registry.log_archive()) == bool(words)


def test_a_copy_of_postgresql_is_refused_with_the_state_of_its_archive(
    registry_url: str, registry: Registry, tmp_path: Path
) -> None:
    assert registry.now()
    variables = {"HOME": str(tmp_path), "HERMESOPS_HOME": str(tmp_path), "HERMESOPS_REGISTRY_URL": registry_url}
    place = RegistryPlace(Environment.load("local", variables), lambda *_, **__: None)
    if registry_url.startswith("sqlite"):
        assert place.copies.take("by-hand").file.exists()
        return
    with pytest.raises(RefusedError, match=r"has its own backups; its server archives no log"):
        _ = place.copies
