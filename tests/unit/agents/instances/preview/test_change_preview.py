"""Durations, downtime, costs and losses of a change that was not opened."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from hermesops.agents.cells.cost.bill import PriceList
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.preview.change_preview import (
    ChangePreview,
    Facts,
    Foreseen,
    Loss,
    PlannedStep,
    preview_of,
    step_key,
    usual_seconds,
)
from hermesops.agents.instances.workflows.copies.restore import RestoreState
from hermesops.cli.views.instance import change_preview
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import CellName, MachineId, OperationId, instance_subject
from hermesops.model.operation import Operation, OperationKind, OperationStatus, OperationStep
from hermesops.model.recovery.backup import Backup
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds.agents import TerminateIntent
from hermesops.store.operations.kinds.copies import RestoreIntent
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.views.agents import change_words
from hermesops.views.agents.change_previews import change_preview as change_preview_shape
from tests.support.fakes.instances import ADA
from tests.support.worlds.one_user import AT, MEMORY

LIGHT = MachineState(MachineId("m"), MachineStatus.READY, "starter")
RUNNING = Observation(
    replace(ADA, status=InstanceStatus.RUNNING), LIGHT, NodeState(ADA.id, 1, "d", ""), GatewayHealth.OK
)
GONE = replace(RUNNING, machine=None, node=None, gateway=None)
DAILY = Backup("daily", ADA.id, AT, "daily", 1, 1, MEMORY)
PRICES = PriceList({("hel1", "starter"): Decimal(10)})
FENCE = PlannedStep("Fence", "stopping the gateway of ada", is_down=True)
RESTORE = RestoreIntent(user="ada", reason="asked", snapshot="daily", keeps=True)
END = TerminateIntent(user="ada", machine_name=ADA.machine_name, reason="", keeps_backup=False)


def preview(intent: Intent, foreseen: Foreseen, **changes: Any) -> ChangePreview:  # noqa: ANN401 - any fact
    subject = instance_subject(ADA.id)
    operation = Operation(
        OperationId("1"), intent.kind, subject, ADA.id, intent.to_json(), OperationStatus.PENDING, "", "", AT, AT
    )
    facts = Facts(usual={}, prices=PRICES, regions={ADA.cell: "hel1"}, newest=DAILY, kept_days=1, continues=False)
    return preview_of(operation, intent, foreseen, replace(facts, **changes))


def restored(*names: str) -> Foreseen:
    state = RestoreState(RUNNING, DAILY, None, None, is_recorded=False)
    return Foreseen(tuple(PlannedStep(name, name, is_down=True) for name in names), state, state)


def row(seconds: float, step: str, holder: str = "vm:1:a", problem: str = "") -> OperationStep:
    return OperationStep(AT + timedelta(seconds=seconds), step, holder, problem)


def test_the_same_step_of_another_agent_on_another_machine_has_the_same_key() -> None:
    here = step_key("resizing machine hermes-local-cell1-5fa9c90da7ee to basic; it reboots", "ada")
    assert here == step_key("resizing machine hermes-local-cell2-000000000000 to basic; it reboots", "ben")
    assert step_key("stopping the gateway of ada", "ada") == step_key("stopping the gateway of ben", "ben")
    text = step_key("creating machine hermes-local-cell1-5fa9c90da7ee", "ben")
    assert step_key("creating machine NEW", "ada") == text
    assert step_key("putting backup 8a31f2bd in place", "ada") == step_key("putting backup 00000000 in place", "ben")
    assert step_key("stopping the gateway of ada", "ada") != step_key("starting the gateway of ada", "ada")


def test_a_step_took_the_time_until_the_next_one_or_the_end() -> None:
    ended = AT + timedelta(seconds=9)
    past = [("ada", ended, [row(0, "stopping the gateway of ada"), row(2, "backing up ada")])]
    assert usual_seconds(past) == {"stopping the gateway of USER": 2.0, "backing up USER": 7.0}
    assert usual_seconds([("ada", ended, []), *past]) == usual_seconds(past)


def test_a_step_that_failed_or_changed_its_process_has_no_usual_time() -> None:
    ended = AT + timedelta(seconds=9)
    failed = [row(0, "backing up ada", problem="no store"), row(5, "backing up ada")]
    assert usual_seconds([("ada", ended, failed)]) == {"backing up USER": 4.0}
    other = [row(0, "backing up ada"), row(5, "waiting for the gateway", holder="vm:2:b")]
    assert usual_seconds([("ada", ended, other)]) == {"waiting for the gateway": 4.0}


def test_the_downtime_is_unknown_while_one_of_its_steps_is() -> None:
    known = {"stopping the gateway of USER": 2.0}
    steps = (replace(FENCE, usual_s=None), PlannedStep("CutOver", "changing ada over", is_down=True))
    both = preview(RESTORE, Foreseen(steps, RUNNING, RUNNING), usual=known)
    assert both.down_s is None
    assert change_words.downtime(both) == "unknown"
    single = preview(RESTORE, Foreseen((FENCE,), RUNNING, RUNNING), usual=known)
    assert (single.down_s, change_words.downtime(single)) == (2.0, "2.0 s")


def test_a_returned_machine_costs_nothing_and_an_unknown_price_is_no_number() -> None:
    ended = preview(END, Foreseen((FENCE,), RUNNING, GONE))
    assert (ended.before.monthly, ended.after.monthly) == (Decimal(10), Decimal(0))
    assert not ended.after.unpriced
    elsewhere = change_preview_shape(preview(END, Foreseen((FENCE,), RUNNING, GONE), regions={CellName("x"): "hel1"}))
    assert (elsewhere["monthly_before"], elsewhere["monthly_after"]) == (None, "0")


def test_a_restore_loses_the_changes_since_its_backup() -> None:
    assert preview(RESTORE, restored("Fence", "BackUp", "RestoreBackup")).loss == Loss(AT, is_saved=True)
    assert preview(RESTORE, restored("Fence", "RestoreBackup")).loss == Loss(AT, is_saved=False)


def test_an_end_without_a_backup_loses_what_no_backup_has() -> None:
    ended = Foreseen((FENCE,), RUNNING, GONE)
    assert preview(END, ended).loss == Loss(AT, is_saved=False)
    never = preview(END, ended, newest=None)
    assert (never.loss, change_words.lost(never.loss)) == (
        Loss(None, is_saved=False),
        "the whole state: there is no backup",
    )
    assert preview(replace(END, keeps_backup=True), ended).loss is None


def test_a_dry_run_names_the_step_from_which_the_agent_is_down() -> None:
    shown = preview(END, Foreseen((FENCE,), RUNNING, GONE))
    assert change_words.downtime(shown) == "from the step 'stopping the gateway of ada' on"
    assert list(change_preview.lines(shown))[-1] == "dry run: nothing was changed"


def test_a_dry_run_that_continues_an_operation_names_it() -> None:
    shape = change_preview_shape(preview(END, Foreseen((FENCE,), RUNNING, GONE), continues=True))
    assert (shape["continues"], shape["change"]) == ("1", OperationKind.TERMINATE.value)
