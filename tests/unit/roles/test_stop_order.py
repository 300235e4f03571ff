"""The order in which a platform's host stops its services, the reverse of that of their start."""

from tests.support.releases.role_files import rendered

DATABASE = "hermes-platform-postgresql.service"


def test_the_database_is_stopped_before_the_store_that_takes_its_log() -> None:
    unit = rendered("hermes_platform_postgresql", f"{DATABASE}.j2", {})
    [order] = [line for line in unit.splitlines() if line.startswith("After=")]
    assert "hermes-platform-object-store.service" in order.split()
