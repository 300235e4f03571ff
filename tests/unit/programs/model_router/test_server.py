"""What the router counts before anybody has asked it."""

import json
from pathlib import Path

from hermesops.model.billing.route import ROUTES
from hermesops.programs.model_router import configuration
from hermesops.programs.model_router.server import parts_of


def test_answers_of_each_provider_are_counted_from_the_beginning(tmp_path: Path) -> None:
    for name in {"router.key", *(route.provider for route in ROUTES)}:
        (tmp_path / name).write_text("k" * 32)
    path = tmp_path / "router.json"
    path.write_text(
        json.dumps({"database": "postgresql://x", "spool": str(tmp_path / "spool"), "secrets": str(tmp_path)})
    )
    lines = parts_of(configuration.read(path)).metrics.exposition().splitlines()
    for route in ROUTES:
        for status in ("200", "401"):
            labels = f'model="{route.name}",provider="{route.provider}",status="{status}"'
            assert f"hermes_router_provider_answers_total{{{labels}}} 0" in lines
    assert "hermes_router_usage_lost_total 0" in lines
    assert "hermes_router_accounts_age_seconds +Inf" in lines
