"""What was asked for of an agent that was suspended meanwhile ends: to resume it, nothing may be under way."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.workflows import configure, restart
from hermesops.agents.instances.workflows.copies import backup, restore
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.operation import Refused
from hermesops.model.recovery.backup import Backup
from tests.support.fakes.instances import ADA, READY
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import MEMORY

SOURCE = Backup("snapshot0", ADA.id, datetime(2026, 1, 1, tzinfo=UTC), "daily", 1, 1, MEMORY)
DECIDED: dict[str, Callable[[Observation], object]] = {
    "backup": lambda observation: backup.decide(backup.BackupState(observation, None)),
    "settings": lambda observation: configure.decide(observation, payload_digest="newer"),
    "restore": lambda observation: restore.decide(
        restore.RestoreState(observation, SOURCE, None, None, is_recorded=False), keeps=True, payload_digest="newer"
    ),
    "restart": lambda observation: restart.decide(restart.RestartState(observation, ""), before=""),
}


@each_case("what", DECIDED)
@each_case(
    ("instance", "machine", "kind"),
    [
        (replace(ADA, status=InstanceStatus.SUSPENDED), None, RefusedError),
        (ADA, None, RefusedError),
        (ADA, READY, UnavailableError),
    ],
    ids=["asleep", "gone", "silent"],
)
def test_what_sleeps_or_is_gone_is_refused_and_what_is_only_silent_is_waited_for(
    what: str, instance: Instance, machine: MachineState | None, kind: type[Exception]
) -> None:
    decided = DECIDED[what](Observation(instance, machine))
    assert isinstance(decided, Refused)
    assert isinstance(decided.error, kind)
    assert str(decided.error.hint)
