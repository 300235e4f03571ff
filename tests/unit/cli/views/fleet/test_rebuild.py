"""Output of ``registry rebuild``."""

from hermesops.agents.drift.lost_registry.rebuild import plan_rebuild
from hermesops.cli.views.fleet import rebuild
from hermesops.views.agents import lost_registry
from tests.support.fleets.in_memory import recovered


def test_a_rebuilt_registry_shows_no_secret() -> None:
    planned = plan_rebuild([recovered(0).called("")])
    shape = lost_registry.rebuild(planned, written=1)
    assert shape["instances"] == [
        {
            "instance_id": recovered(0).id,
            "user": recovered(0).user_id,
            "plan": "light",
            "cell": "cell1",
            "machine_name": recovered(0).machine_name,
            "machine_id": "m-0",
            "epoch": 1,
        }
    ]
    assert (shape["written"], len(planned.left)) == (1, 1)
    assert "k" * 43 not in str((shape, rebuild.rebuild_lines(planned), planned))
