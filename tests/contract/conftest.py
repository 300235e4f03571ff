"""One PostgreSQL server for all contract tests, and a registry's place in either database."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import postgresql
from tests.support.prerequisites import require


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.PostgreSql]:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    with postgresql.running() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def registry_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state/registry.db"
    new_database: str = request.getfixturevalue("postgresql_server").new_database()
    return new_database
