"""Six hours of a small fleet, as a Prometheus has them: what machines and the monitor sent, and what rules recorded.

At three hours cell-2 is silent for half an hour, and the model fails for some users in the last hour.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime

from hermesops.programs.ingest.heartbeats import PREFIX
from tests.support.real.monitoring.prometheus import Series

END = datetime(2026, 1, 15, 14, tzinfo=UTC).timestamp()
BEGIN = END - 6 * 3600
EVERY_S = 60.0

CELLS = ("cell-1", "cell-2", "cell-3")
INSTANCES = tuple((f"user-{number:02}", CELLS[number % 3]) for number in range(18))
SHOWN = INSTANCES[4][0]
"""The instance that its dashboard is drawn for."""

_GIB = 1 << 30
_OUTAGE = (3 * 3600, 3.5 * 3600)
_MODEL_FAILS = (5 * 3600, 7 * 3600)

Value = Callable[[float], float | None]
"""Of the seconds since the beginning."""


def past() -> list[Series]:
    """All of it."""
    return [*_platform(), *(series for number in range(len(INSTANCES)) for series in _instance(number))]


def _is_out(cell: str, t: float) -> bool:
    return cell == CELLS[1] and _OUTAGE[0] <= t < _OUTAGE[1]


def _fails(number: int, t: float) -> bool:
    return number % 6 == 4 and _MODEL_FAILS[0] <= t < _MODEL_FAILS[1]


def _wave(number: int, t: float, hours: float = 2) -> float:
    """From 0 to 1 and back, for each instance another way."""
    return 0.5 + 0.5 * math.sin(number * 1.7 + t / 3600 / hours * 2 * math.pi)


def _instance(number: int) -> Iterator[Series]:
    name, cell = INSTANCES[number]
    ours = {"instance_id": name, "cell": cell}
    machine = {**ours, "machine": f"machine-{number:02}"}
    release = "2026.01.2" if number % 4 else "2026.01.1"

    def while_heard(value: Value) -> Value:
        return lambda t: None if _is_out(cell, t) else value(t)

    def own(metric: str, value: Value, kind: str = "gauge", /, **labels: str) -> Series:
        return _series(metric, {**machine, **labels}, while_heard(value), kind)

    def counted(metric: str, per_hour: float, /, **labels: str) -> Series:
        return own(metric, lambda t: math.floor(t / 3600 * per_hour + _wave(number, t)), "counter", **labels)

    yield _series("hermesops_instance_expected", ours, lambda _: 1)
    yield _series("hermesops:instance:expected", ours, lambda _: 1)
    yield _series("hermesops:instance:watched", ours, lambda _: 1)
    yield _series("hermesops:instance:reporting", ours, lambda t: None if _is_out(cell, t) else 1)
    yield _series("hermesops:instance:silent", ours, lambda t: 1 if _is_out(cell, t) else None)
    yield _series("hermesops:instance:unreachable", ours, lambda t: 1 if _is_out(cell, t) else None)
    yield _series("hermesops_instance_backup_age_seconds", ours, lambda t: 3600 * (4 + number / 3) + t)
    yield _series("hermesops_instance_busy", ours, lambda t: float(number == 7 and t > 21000))
    yield _series("hermesops_instance_outdated", ours, lambda _: float(release == "2026.01.1"))
    yield _series("hermesops_instance_condition", {**ours, "condition": "silent"}, lambda t: float(_is_out(cell, t)))
    yield _series(
        "hermesops_instance_condition",
        {**ours, "condition": "degraded"},
        lambda t: float(_fails(number, t) and not _is_out(cell, t)),
    )
    yield _series(
        "hermesops_instance_condition",
        {**ours, "condition": "healthy"},
        lambda t: float(not _fails(number, t) and not _is_out(cell, t)),
    )
    yield _series(
        "hermesops:instance_heartbeat_age:seconds",
        {"instance_id": name},
        lambda t: t - _OUTAGE[0] if _is_out(cell, t) else 15 + 10 * _wave(number, t),
    )
    yield own("hermes_agent_up", lambda _: 1)
    yield own("hermes_gateway_up", lambda _: 1)
    yield own("hermes_clock_offset_seconds", lambda t: 0.4 * _wave(number, t))
    yield own("hermes_certificate_not_after_timestamp_seconds", lambda _: END + 86400 * (4 + number % 3))
    yield own("hermes_router_token_not_after_timestamp_seconds", lambda _: END + 86400 * (5 + number % 2))
    yield own("hermes_messenger_connected", lambda _: 1, messenger="telegram")
    yield own("hermes_messenger_connected", lambda t: float(not 6000 < t < 7000), messenger="slack")
    yield counted("hermes_turns_total", 40 + number, outcome="answered")
    yield own(
        "hermes_turns_total",
        lambda t: math.floor(max(0.0, t - _MODEL_FAILS[0]) / 100) if _fails(number, t) else 0,
        "counter",
        outcome="failed",
    )
    yield own(
        "hermes_model_errors_total",
        lambda t: math.floor(max(0.0, t - _MODEL_FAILS[0]) / 60) if _fails(number, t) else 0,
        "counter",
        status="5xx",
    )
    yield counted("hermes_model_errors_total", number % 3, status="429")
    yield own("hermes_turn_seconds", lambda t: 2 + 3 * _wave(number, t) + 6 * _fails(number, t))
    yield own("hermes_queue_age_seconds", lambda t: 20 * _wave(number, t, 1) + 200 * _fails(number, t))
    yield own("hermes_runs_in_flight", lambda t: round(2 * _wave(number, t, 0.5)))
    yield counted("hermes_gateway_restarts_total", 0.4 if release == "2026.01.1" else 0.2)
    yield counted("hermes_gateway_errors_total", 5 if release == "2026.01.1" else 2)
    yield own("hermes_gateway_memory_bytes", lambda t: (0.35 + 0.25 * _wave(number, t, 5)) * _GIB)
    yield own("hermes_gateway_memory_max_bytes", lambda _: 0.8 * _GIB)
    yield own("hermes_database_bytes", lambda t: 8e6 + 2e6 * t / 3600 + 1e6 * number, database="state")
    yield own("hermes_release_info", lambda _: 1, release=release, slot="a")
    yield own("hermes_release_change_pending", lambda _: float(number == 3))
    yield own("hermes_node_info", lambda _: 1, version="0.1.0", profile="lean", distribution="debian12")
    yield counted("hermes_tokens_spent_total", 90_000 + 4_000 * number, kind="input")
    yield counted("hermes_tokens_spent_total", 15_000 + 900 * number, kind="output")
    yield own("node_memory_MemAvailable_bytes", lambda t: (1.1 + 0.4 * _wave(number, t)) * _GIB)
    yield own("node_memory_MemTotal_bytes", lambda _: 2 * _GIB)
    yield own("node_cpu_seconds_total", lambda t: t * (0.8 + number / 180), "counter", mode="idle", cpu="0")
    for volume, base in (("data", 0.3), ("root", 0.45)):
        yield _series(
            "hermesops:instance_volume_used:ratio",
            {"instance_id": name, "volume": volume},
            while_heard(lambda t, base=base: base + 0.1 * t / 21600),  # type: ignore[misc]
        )
    yield _series(
        "hermesops:instance_turns_failed:ratio_rate5m",
        {"instance_id": name},
        while_heard(lambda t: 0.4 if _fails(number, t) else 0.0),
    )


def _messengers() -> Iterator[Series]:
    for state, count in (("unrouted", 0), ("held", 0), ("unanswered", 1), ("answered", 14)):
        yield _series("hermesops_messages_users", {"state": state}, lambda _, count=count: count)  # type: ignore[misc]
    for state, count in (
        ("linked", 20),
        ("blocked", 1),
        ("delivered", 14),
        ("undelivered", 0),
        ("uncertain", 0),
        ("refused", 0),
    ):
        labels = {"messenger": "telegram", "state": state}
        yield _series("hermesops_messenger_users", labels, lambda _, count=count: count)  # type: ignore[misc]
    yield _series("hermesops_messenger_session", {"messenger": "discord"}, lambda _: 1)
    for name, _ in INSTANCES:
        yield _series("hermesops_instance_socket", {"instance_id": name}, lambda _: 1)


def _platform() -> Iterator[Series]:
    members = {cell: sum(place == cell for _, place in INSTANCES) for cell in CELLS}
    for cell, count in members.items():
        yield _series("hermesops_cell_expected", {"cell": cell}, lambda _, count=count: count)  # type: ignore[misc]
        yield _series(
            "hermesops_fleet_cost_usd_per_month",
            {"cell": cell},
            lambda _, count=count: 6.5 * count,  # type: ignore[misc]
        )
        yield _series("hermesops:cell_gap:ratio", {"cell": cell}, lambda t, cell=cell: 1 if _is_out(cell, t) else None)  # type: ignore[misc]
    yield _series("hermesops:agents_unreachable:ratio", {}, lambda t: 1 / 3 if _is_out(CELLS[1], t) else 0)
    yield _series("hermesops:turns_failed:ratio", {}, lambda t: 0.4 / 6 if _MODEL_FAILS[0] <= t else 0)
    yield _series("hermesops:agents_unreachable:budget", {}, lambda _: 0.005)
    yield _series("hermesops:turns_failed:budget", {}, lambda _: 0.01)
    yield _series("hermesops:provision_target:value", {}, lambda _: 300)
    yield _series("hermesops_monitor_actions_total", {"action": "start", "outcome": "done"}, _steps(10800), "counter")
    yield _series("hermesops_monitor_actions_total", {"action": "reboot", "outcome": "done"}, _steps(12000), "counter")
    for number in range(6):
        yield _series(
            "hermesops_provision_seconds",
            {"operation": f"operation-{number}"},
            lambda t, number=number: 60 + 50 * number if number * 3600 <= t < number * 3600 + 7200 else None,  # type: ignore[misc]
        )
    for service in ("api", "connections", "edge", "nginx"):
        labels = {"job": "platform", "origin": "platform", "service": service, "instance": "127.0.0.1:9110"}
        yield _series("up", labels, lambda _: 1)
    for kind, count in (("all", 40), ("slow", 1)):
        yield _series("hermesops_api_users", {"kind": kind}, lambda _, count=count: count)  # type: ignore[misc]
    yield _series("hermesops_turns_orphaned_users", {}, lambda _: 0)
    for outcome, count in (("taken", 3), ("refused", 0)):
        yield _series("hermesops_webhooks", {"outcome": outcome}, lambda _, count=count: count)  # type: ignore[misc]
    for state, count in (("linked", 12), ("expired", 1)):
        labels = {"service": "gmail", "state": state}
        yield _series("hermesops_connections_users", labels, lambda _, count=count: count)  # type: ignore[misc]
    for state, count in (("delivered", 5), ("undelivered", 1)):
        yield _series("hermesops_notified_callers", {"state": state}, lambda _, count=count: count)  # type: ignore[misc]
    yield from _messengers()
    yield _series("hermesops_rollout_state", {"rollout": "2026-01-15-a", "state": "running"}, lambda _: 1)
    yield _series("hermesops_rollout_halted", {"rollout": "2026-01-14-b"}, lambda t: float(t < 7200))
    page = {"alertstate": "firing", "severity": "page", "owner": "platform"}
    yield _series(
        "ALERTS",
        {**page, "alertname": "CellLost", "scope": "cell", "cell": CELLS[1]},
        lambda t: 1 if _OUTAGE[0] + 60 < t < _OUTAGE[1] + 120 else None,
    )
    for number, (name, cell) in enumerate(INSTANCES):
        if number % 6 == 4:
            labels = {**page, "severity": "ticket", "owner": "agents", "scope": "instance"}
            yield _series(
                "ALERTS",
                {**labels, "alertname": "ModelFailing", "instance_id": name, "cell": cell},
                lambda t: 1 if t > _MODEL_FAILS[0] + 200 else None,
            )


def _steps(since_s: float) -> Value:
    return lambda t: math.floor(max(0.0, t - since_s) / 2400) + 1


def _series(metric: str, labels: Mapping[str, str], value: Value, kind: str = "gauge") -> Series:
    count = int((END - BEGIN) / EVERY_S) + 1
    samples = [
        (BEGIN + number * EVERY_S, figure) for number in range(count) if (figure := value(number * EVERY_S)) is not None
    ]
    return Series(metric, kind, labels, samples)


def raw(minutes: int) -> dict[str, str]:
    """The last minutes of some instances in promtool's notation, one value a minute, without what rules record."""
    names = {name for name, _ in INSTANCES[:6]}
    notation = dict[str, str]()
    for series in past():
        if (
            series.metric == "ALERTS"
            or ":" in series.metric
            or series.labels.get("instance_id", "user-00") not in names
        ):
            continue
        values = {at: value for at, value in series.samples if at >= END - minutes * 60}
        labels = ", ".join(f'{name}="{value}"' for name, value in series.labels.items())
        steps = [END - (minutes - number) * 60 for number in range(minutes + 1)]
        notation[f"{series.metric}{{{labels}}}"] = " ".join(str(values[at]) if at in values else "_" for at in steps)
    # promtool's time begins at 0, and so do these heartbeats.
    for number in range(6):
        name, cell = INSTANCES[number]
        labels = f'instance_id="{name}", cell="{cell}", machine="machine-{number:02}"'
        notation[f'{PREFIX}timestamp_seconds{{{labels}, origin="platform"}}'] = f"0+60x{minutes}"
        for state, value in (("used", 300), ("size", 1000)):
            notation[f'hermes_data_bytes{{{labels}, state="{state}"}}'] = f"{value}x{minutes}"
    return {**notation, "hermesops_monitor_pass_seconds": f"0.5x{minutes}"}
