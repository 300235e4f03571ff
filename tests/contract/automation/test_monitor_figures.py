"""What the monitor tells of instances, from the registry's rows."""

from datetime import timedelta

from hermesops.automation.monitor.metrics.exposition import series
from hermesops.automation.monitor.metrics.figures import FleetFigures
from hermesops.automation.monitor.service import REASON
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import placed

AGE = "hermesops_instance_backup_age_seconds"


def test_an_agent_that_was_never_backed_up_is_as_late_as_it_is_old(registry: Registry) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    for instance in (ada, bob):
        registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    registry.backups.record(Backup("b", bob.id, registry.now() - timedelta(hours=1), "daily", 1, 1, State({})))
    fleet = registry.fleet.expected(reason=REASON)
    series_values = FleetFigures(registry).read(fleet).series
    age_s = (fleet.now - registry.instances.get(ada.id).created_at).total_seconds()
    assert series_values[series(AGE, instance_id=ada.id)] == age_s
    assert series(AGE, instance_id=bob.id) not in series_values, "the monitor tells it anew with each pass"
