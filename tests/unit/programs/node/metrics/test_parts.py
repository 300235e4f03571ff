"""What the metrics say of a machine, and what they leave out because nobody knows it."""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from hermesops.base import assets
from hermesops.model.billing.route import issue_token
from hermesops.model.ids import InstanceId
from hermesops.programs.node import __main__ as node
from hermesops.programs.node.instance import clock
from hermesops.programs.node.instance.agent import readiness
from hermesops.programs.node.instance.agent.api import Answer
from hermesops.programs.node.instance.personalise import personalise
from hermesops.wire.model_endpoint import ModelEndpoint
from hermesops.wire.settings import Settings
from tests.support.fakes.machines.node_home import NodeHome, make


@pytest.fixture
def unassigned(tmp_path: Path) -> NodeHome:
    machine = make(tmp_path, runs_processes=False)
    machine.layout.metrics.parent.mkdir(parents=True)
    return machine


@pytest.fixture
def machine(unassigned: NodeHome) -> NodeHome:
    personalise(unassigned.node, unassigned.personalised(), wait_s=5)
    return unassigned


def run(machine: NodeHome, *words: str) -> dict[str, Any]:
    out, err = io.StringIO(), io.StringIO()
    code = node.run(["--root", str(machine.layout.root), *words], lambda _: machine.node, out, err)
    assert code == 0, err.getvalue()
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def metrics(machine: NodeHome, *, failing: set[str] = frozenset()) -> dict[str, float]:  # type: ignore[assignment]
    """Its series and their values."""
    assert set(run(machine, "metrics")["failed"]) == failing
    lines = [line for line in machine.layout.metrics.read_text().splitlines() if not line.startswith("#")]
    return {series: float(value) for series, _, value in (line.rpartition(" ") for line in lines)}


def test_an_agent_that_is_well(machine: NodeHome) -> None:
    series_values = metrics(machine)
    assert series_values["hermes_personalised"] == 1
    assert (
        series_values["hermes_fenced"]
        == series_values["hermes_break_glass_open"]
        == series_values["hermes_release_change_pending"]
        == 0
    )
    assert (
        series_values["hermes_agent_up"]
        == series_values["hermes_gateway_up"]
        == series_values['hermes_agent_health{status="ok"}']
        == 1
    )
    assert series_values['hermes_agent_health{status="silent"}'] == 0
    assert (
        series_values["hermes_queue_age_seconds"]
        == series_values["hermes_runs_in_flight"]
        == series_values["hermes_gateway_restarts_total"]
        == 0
    )
    assert series_values["hermes_metrics_timestamp_seconds"] == machine.system.now()
    assert series_values['hermes_data_bytes{state="size"}'] >= series_values['hermes_data_bytes{state="used"}'] > 0
    assert series_values["hermes_metrics_errors_total"] == 0


def test_jobs_that_the_users_own_provider_answers_have_no_outcome(machine: NodeHome) -> None:
    assert metrics(machine)['hermes_jobs_ended{outcome="failed"}'] == 0
    endpoint = ModelEndpoint("openai", "https://api.openai.com/v1", "codex_responses", "gpt-5.2", "sk-proj-0123456789")
    own = machine.personalised(settings=Settings(endpoint=endpoint)).read_bytes()
    machine.layout.payload.write_bytes(own)
    figures = metrics(machine)
    assert "hermes_queue_age_seconds" in figures
    assert not [series for series in figures if series.startswith("hermes_jobs_ended")]


def test_what_is_not_known_is_left_out(machine: NodeHome) -> None:
    known = {series.partition("{")[0] for series in metrics(machine)}
    assert not known & {
        "hermes_certificate_not_after_timestamp_seconds",
        "hermes_clock_offset_seconds",
        "hermes_gateway_memory_bytes",
        "hermes_gateway_memory_max_bytes",
        "hermes_last_backup_timestamp_seconds",
        "hermes_messenger_connected",
        "hermes_release_info",
        "hermes_turn_seconds",
    }


def test_a_machine_without_a_user_has_no_agent(unassigned: NodeHome) -> None:
    series_values = metrics(unassigned)
    assert series_values["hermes_personalised"] == series_values["hermes_gateway_up"] == 0
    assert not [
        series for series in series_values if series.startswith(("hermes_agent", "hermes_queue", "hermes_router"))
    ]


@pytest.mark.parametrize(
    ("answer", "health"),
    [
        (Answer(0, "refused"), "silent"),
        (Answer(200, "<html>"), "silent"),
        (Answer(401, {}), "refused"),
        (Answer(200, {"status": "degraded"}), "degraded"),
        (Answer(200, {"status": "ok", "readiness": 7}), "degraded"),
    ],
)
def test_what_the_gateway_answers(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch, answer: Answer, health: str
) -> None:
    monkeypatch.setattr(machine.system, "ask", lambda *_, **__: answer)
    figures = metrics(machine)
    series_values = {series: value for series, value in figures.items() if series.startswith("hermes_agent_health")}
    assert [series for series, value in series_values.items() if value] == [f'hermes_agent_health{{status="{health}"}}']
    assert len(series_values) == 5
    assert figures["hermes_agent_up"] == (health == "degraded")
    assert ("hermes_runs_in_flight" in figures) == (health == "degraded")
    assert "hermes_queue_age_seconds" not in figures


def test_fence_change_of_release_and_break_glass(machine: NodeHome) -> None:
    for path in (machine.layout.fence, machine.layout.activation, machine.layout.break_glass):
        path.write_text("{}")
    series_values = metrics(machine)
    assert (
        series_values["hermes_fenced"]
        == series_values["hermes_release_change_pending"]
        == series_values["hermes_break_glass_open"]
        == 1
    )


def test_programs(machine: NodeHome) -> None:
    for path, text in (
        (machine.layout.os_release, 'NAME="x"\nID=debian\nVERSION_ID="12"\nHOME_URL="https://x"\n'),
        (machine.layout.unit("hermes-vmagent.service"), "[Service]\n"),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = next(series for series in metrics(machine) if series.startswith("hermes_node_info"))
    assert 'distribution="debian-12",profile="lean",version="' in info


def test_messengers_that_are_watched(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    payload = json.loads(machine.layout.payload.read_bytes())
    names = ("TELEGRAM_BOT_TOKEN", "SLACK_BOT_TOKEN", "DISCORD_BOT_TOKEN", "MATRIX_ACCESS_TOKEN")
    payload["settings"]["messengers"] = dict.fromkeys(names, "1:x")
    machine.layout.payload.write_text(json.dumps(payload))
    platforms = {"telegram": {"state": "connected"}, "slack": {"state": "retrying"}, "irc": {"state": "connected"}}
    monkeypatch.setattr(
        machine.system, "ask", lambda *_, **__: Answer(200, {"status": "ok", "platforms": platforms, "jobs": []})
    )
    series_values = {series: value for series, value in metrics(machine).items() if "messenger" in series}
    assert series_values == {
        'hermes_messenger_connected{messenger="telegram"}': 1,
        'hermes_messenger_connected{messenger="slack"}': 0,
        'hermes_messenger_connected{messenger="discord"}': 0,
    }


def test_restarts_are_all_of_this_boot(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    for shown, total in ((2, 2), (5, 5), (0, 5), (3, 8), (1, 9)):
        monkeypatch.setattr(machine.system, "systemctl", lambda *_, n=shown, **__: f"ActiveState=active\nNRestarts={n}")
        assert metrics(machine)["hermes_gateway_restarts_total"] == total


def test_the_cap_of_the_gateways_memory(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, shown in (("2147483648", 2 << 30), ("infinity", None), ("", None)):
        unit = f"ActiveState=active\nMemoryMax={most}\nMemoryCurrent=1024\n"
        monkeypatch.setattr(machine.system, "systemctl", lambda *_, unit=unit, **__: unit)
        series_values = metrics(machine)
        assert series_values.get("hermes_gateway_memory_max_bytes") == shown
        assert series_values["hermes_gateway_memory_bytes"] == 1024


def test_the_turn_of_a_probe_counts_for_a_while_and_for_its_gateway(
    machine: NodeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness, "take_turn", lambda *_, **__: readiness.AgentTurn(ok=True, seconds=1.5))
    unit = "ActiveState=active\nActiveEnterTimestampMonotonic={}\n"
    monkeypatch.setattr(machine.system, "systemctl", lambda *_, **__: unit.format(1))
    machine.system.now_s = 5000
    run(machine, "probe", "--turn", "5")
    assert metrics(machine)["hermes_turn_seconds"] == 1.5
    monkeypatch.setattr(machine.system, "systemctl", lambda *_, **__: unit.format(int(5001 * 1e6)))
    machine.system.now_s = 5002
    assert "hermes_turn_seconds" not in metrics(machine), "another gateway took it"
    monkeypatch.setattr(machine.system, "systemctl", lambda *_, **__: unit.format(1))
    machine.system.now_s = 5601
    assert "hermes_turn_seconds" not in metrics(machine), "it is old"


def test_a_failed_turn_has_no_duration(machine: NodeHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "take_turn", lambda *_, **__: readiness.AgentTurn(ok=False, seconds=60))
    shown = "ActiveState=active\nActiveEnterTimestampMonotonic=1\n"
    monkeypatch.setattr(machine.system, "systemctl", lambda *_, **__: shown)
    machine.system.now_s = 5000
    run(machine, "probe", "--turn", "5")
    assert "hermes_turn_seconds" not in metrics(machine)


def test_the_routers_token_is_read_as_the_router_reads_it(machine: NodeHome) -> None:
    assert "hermes_router_token_not_after_timestamp_seconds" not in metrics(machine), "a token of another form"
    payload = json.loads(machine.layout.payload.read_bytes())
    token = issue_token(b"s" * 32, InstanceId("5b8d2c00-0000-4000-8000-000000000001"), 3, 1_900_000_000)
    payload["secrets"]["model_token"] = token
    machine.layout.payload.write_text(json.dumps(payload))
    assert metrics(machine)["hermes_router_token_not_after_timestamp_seconds"] == 1_900_000_000
    assert token not in machine.layout.metrics.read_text()


def test_the_clock_is_what_the_platforms_last_answer_made_it(machine: NodeHome) -> None:
    for age, shown in ((5, -42.5), (601, None)):
        machine.layout.clock.write_text(json.dumps({"offset_s": -42.5, "at": machine.system.now() - age}))
        assert metrics(machine).get("hermes_clock_offset_seconds") == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", None),
        ('{"offset_s": "x", "at": 1}', None),
        ('{"offset_s": -42.5, "at": 1}', None),
        ('{"offset_s": -42.5, "at": NOW}', {"off": True, "offset_s": -42.5}),
        ('{"offset_s": 10.0, "at": NOW}', {"off": False, "offset_s": 10.0}),
    ],
)
def test_status_has_the_clock_as_the_alert_judges_it(machine: NodeHome, text: str, shown: object) -> None:
    assert clock.of_status(machine.node) is None
    machine.layout.clock.write_text(text.replace("NOW", str(machine.system.now())))
    assert clock.of_status(machine.node) == shown


def test_a_clock_is_off_by_as_much_as_for_the_alert() -> None:
    rules = (assets.folder("roles") / "hermes_platform_monitoring/files/rules/instances.yml").read_text()
    offset = 'last_over_time(hermes_platform_heartbeat_clock_offset_seconds{origin="platform"}[5m])'
    assert f"abs({offset})) > {clock.OFF_S:g})" in re.sub(r"\s+(?=\))|(?<=\()\s+|\n\s*", "", rules)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"offset_s": NaN, "at": 1}', '{"at": 1}', '{"offset_s": "x", "at": 1}']
)
def test_a_damaged_clock_file_costs_the_clock_alone(machine: NodeHome, text: str) -> None:
    machine.layout.clock.write_text(text)
    series_values = metrics(machine, failing={"clock"})
    assert "hermes_clock_offset_seconds" not in series_values
    assert series_values["hermes_agent_up"] == series_values["hermes_metrics_errors_total"] == 1


def test_the_last_backup_is_this_instances(machine: NodeHome) -> None:
    for instance, shown in (("i-1", 1_700_000_000), ("i-2", None)):
        machine.layout.last_backup.write_text(json.dumps({"instance": instance, "at": 1_700_000_000}))
        assert metrics(machine).get("hermes_last_backup_timestamp_seconds") == shown


def test_a_payload_that_is_damaged_costs_what_needs_it(machine: NodeHome) -> None:
    machine.layout.payload.write_text("{")
    series_values = metrics(machine, failing={"agent", "queue", "router_token"})
    assert series_values["hermes_gateway_up"] == series_values["hermes_personalised"] == 1
    assert "hermes_agent_up" not in series_values
