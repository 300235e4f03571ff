"""Shapes of instances are an interface: a field that goes, or changes its meaning, raises their version."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest
import yaml

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.requests.bulk import ProvisionRequest, ProvisionResult
from hermesops.agents.instances.suspension import Suspension
from hermesops.cli import console
from hermesops.cli.printing.fields import field_lines
from hermesops.cli.views.instance.overview import instance_line
from hermesops.cli.views.instance.settings import settings_lines
from hermesops.errors import RefusedError
from hermesops.model.access.masking import masked
from hermesops.model.fleet.health import Condition, GatewayHealth, Judgement, NodeState
from hermesops.model.fleet.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, OperationId, UserId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.vendor.justavps.wire import MachineStatus
from hermesops.views.agents import instances as instance_shapes
from tests.support.fakes.instances import ADA

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
INSTANCE = Instance(
    id=InstanceId("i"),
    user_id=UserId("u"),
    user_alias="ada",
    plan=Plan.LIGHT,
    status=InstanceStatus.RUNNING,
    cell=CellName("cell1"),
    machine_name=MachineName("hermes-local-cell1-0123456789ab"),
    machine_id=MachineId("m"),
    epoch=1,
    created_at=AT,
)
SHAPE = {
    "user": "ada",
    "instance_id": "i",
    "user_id": "u",
    "plan": "light",
    "status": "running",
    "cell": "cell1",
    "machine_name": "hermes-local-cell1-0123456789ab",
    "machine_id": "m",
    "epoch": 1,
    "created_at": "2026-01-02T03:04:05+00:00",
    "last_heartbeat": None,
    "ends_at": None,
}


def test_the_version_of_these_shapes() -> None:
    assert console.SHAPE_VERSION == 1


def test_an_instance() -> None:
    assert instance_shapes.instance(INSTANCE) == SHAPE


def test_an_instance_with_what_is_seen_of_it() -> None:
    observation = Observation(
        INSTANCE,
        MachineState(MachineId("m"), MachineStatus.READY),
        NodeState(InstanceId("i"), 1, "d", "0.19.0-abc"),
        GatewayHealth.OK,
    )
    shape = instance_shapes.observation(observation, Judgement(Condition.DEGRADED, ("it drains", "a turn failed")))
    assert shape == {
        **SHAPE,
        "machine_status": "ready",
        "release": "0.19.0-abc",
        "gateway": "ok",
        "health": "degraded",
        "reasons": ["it drains", "a turn failed"],
    }
    assert field_lines(shape)[-1] == "reasons         it drains; a turn failed"
    without = instance_shapes.observation(Observation(INSTANCE, None), None)
    assert (without["machine_status"], without["health"], without["reasons"]) == (None, None, [])
    assert field_lines(without)[-1] == "reasons         -"


def test_what_became_of_one_of_many_wishes() -> None:
    begun = Operation(
        OperationId("o"), OperationKind.PROVISION, "instance/i", None, {}, OperationStatus.DONE, "", "", AT, AT
    )
    shape = {
        "line": 2,
        "user": "ada",
        "plan": "light",
        "instance_id": "i",
        "status": "running",
        "cell": "cell1",
        "machine_name": "hermes-local-cell1-0123456789ab",
        "operation_id": "o",
        "outcome": "runs",
        "exit_code": 0,
    }
    request = ProvisionRequest(2, "ada", Plan.LIGHT)
    assert instance_shapes.provision_result(ProvisionResult(request, INSTANCE, begun, "runs"), INSTANCE) == shape
    nothing = dict.fromkeys(("instance_id", "status", "cell", "machine_name", "operation_id"))
    refused = ProvisionResult(request, None, None, "", RefusedError("no room"))
    assert instance_shapes.provision_result(refused, None) == {**shape, **nothing, "outcome": "no room", "exit_code": 3}


def test_settings() -> None:
    chosen = InstanceSettings(
        model="gpt-4o",
        personality="Terse.",
        messengers={"TELEGRAM_BOT_TOKEN": "secret"},
        mcp_servers={"notes": {"url": "https://example.org/secret"}},
        cron=({"cron": "0 9 * * *", "prompt": "Good morning", "enabled": True},),
        disabled_tools=("web",),
    )
    shape = {
        "model": "gpt-4o",
        "personality": "Terse.",
        "messengers": {"TELEGRAM_BOT_TOKEN": "***"},
        "mcp_servers": {"notes": {"url": "https://example.org/***"}},
        "cron": [{"cron": "0 9 * * *", "prompt": "Good morning", "enabled": True}],
        "disabled_tools": ["web"],
    }
    assert masked(chosen) == shape
    assert yaml.safe_load("\n".join(settings_lines(shape))) == shape
    lines = settings_lines(shape, instance_shapes.route("gpt-4o"))
    assert yaml.safe_load("\n".join(lines)) == shape
    assert lines[-1] == "# gpt-4o, is answered by gpt-4o of openai"


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("", "# claude-haiku, the default, is answered by claude-haiku-4-5 of anthropic"),
        ("gone", "# gone, is answered by nobody: the router lacks it"),
    ],
)
def test_who_answers_an_agent(name: str, line: str) -> None:
    assert settings_lines({}, instance_shapes.route(name))[-1] == line


def test_an_agent_whose_termination_is_scheduled_is_ending_and_says_what_cancels_that() -> None:
    until = datetime(2026, 12, 5, 4, 24, tzinfo=UTC)
    asleep = replace(ADA, status=InstanceStatus.SUSPENDED)
    rows = {"ending": replace(asleep, grace_until=until), "suspended": asleep, "running": ADA}
    assert [instance_line(row)["status"] for row in rows.values()] == list(rows)
    assert instance_shapes.instance(rows["ending"])["status"] == "suspended", "JSON keeps the field's four values"
    assert instance_shapes.instance(rows["ending"])["ends_at"] == "2026-12-05T04:24:00+00:00"
    suspensions = {name: instance_shapes.suspension(row, Suspension(until, "left us")) for name, row in rows.items()}
    assert str(suspensions["ending"]["undo"]) == "hermesops instance terminate ada --undo"
    assert (str(suspensions["suspended"]["undo"]), suspensions["suspended"]["suspended_reason"]) == (
        "hermesops instance resume ada --reason WHY",
        "left us",
    )
    assert suspensions["running"] == {}
    ended = replace(rows["ending"], status=InstanceStatus.TERMINATED)
    assert instance_line(ended)["status"] == "terminated"
