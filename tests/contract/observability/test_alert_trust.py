"""Whose word alerts take: the platform's own series have a mark that nobody can send, and lives depend on no sender."""

import re
from collections.abc import Iterator

import yaml

from hermesops.automation.monitor.metrics.heartbeats import QUERY
from hermesops.programs.ingest.senders import _HOSTS_JOBS as HOSTS_JOBS
from hermesops.programs.ingest.senders import IDENTITY, Identity
from hermesops.programs.node.metrics import exposition
from tests.support.alerts import promtool
from tests.support.real.monitoring.platform_host import ROLE
from tests.support.releases.role_files import defaults_of, rendered

_SELECTOR = re.compile(r"(?<![\w:])([a-zA-Z_][\w:]*)(?:\{([^}]*)\}|(?=\[))")
_OURS = re.compile(r"up|hermes_platform_.+|hermes_router_(?!token_not_after).+")
"""Metrics that this host reads of its own services; anybody could send one of such a name, were it not marked."""

_WRITERS = (Identity("m-1", "i-1", "cell1"), Identity("m-2"), Identity(source="web"))


def expressions() -> Iterator[tuple[str, str, str]]:
    """Group, name and expression of every rule."""
    for path in promtool.files():
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                yield group["name"], rule.get("alert") or rule["record"], rule["expr"]


def selectors(expression: str) -> Iterator[tuple[str, str]]:
    """Name and matchers of every selector that is written with braces or a range."""
    yield from _SELECTOR.findall(expression)


def anybody_writes(metric: str) -> bool:
    """Whether some sender other than hermesops could write a metric of that name."""
    return ":" not in metric and any(who.may_name(metric.encode()) for who in _WRITERS)


def test_no_rule_trusts_a_series_for_what_it_lacks() -> None:
    lacking = [name for _, name, expression in expressions() if re.search(r'\w\s*=~?\s*""', expression)]
    assert lacking == [], "a machine without a user lacks every label, too"


def test_what_is_told_of_the_platform_is_read_from_series_with_its_mark() -> None:
    unmarked = [
        f"{name}: {metric}"
        for _, name, expression in expressions()
        for metric, matchers in selectors(expression)
        if (_OURS.fullmatch(metric) or re.search(r"\bjob=", matchers)) and 'origin="platform"' not in matchers
    ]
    assert unmarked == []


def test_nobody_sends_the_mark_and_all_that_this_host_reads_has_it() -> None:
    assert b"origin" in IDENTITY
    for who in _WRITERS:
        assert b"origin" in who.overwritten
    variables = {**defaults_of(ROLE), "__hermes_platform_monitoring_has_loki": True}
    variables |= {"__hermes_platform_monitoring_settings": "/etc", "__hermes_platform_monitoring_ports": _Ports()}
    jobs = yaml.safe_load(rendered(ROLE, "prometheus.yml.j2", variables))["scrape_configs"]
    assert {job["job_name"].encode() for job in jobs} == HOSTS_JOBS
    for job in jobs:
        assert job["relabel_configs"] == [{"target_label": "origin", "replacement": "platform"}], job["job_name"]
        assert not job.get("honor_labels"), "what it reads could take the mark away"


def test_whether_a_machine_lives_is_asked_of_nothing_that_senders_write() -> None:
    groups = [expression for group, _, expression in expressions() if group in {"clocks", "heartbeats"}]
    named = {metric for expression in (*groups, QUERY) for metric, _ in selectors(expression)}
    assert {metric for metric in named if anybody_writes(metric)} == set()
    assert "hermes_platform_heartbeat_timestamp_seconds" in named


def test_no_rule_reads_whatever_there_is() -> None:
    for _, name, expression in expressions():
        for pattern in re.findall(r'__name__\s*=~\s*"([^"]*)"', expression):
            assert re.fullmatch(r"[a-z_|()]+", pattern), name
    (pattern,) = [
        result
        for _, name, expression in expressions()
        for result in re.findall(r'__name__=~"hermes_\(([^)]*)\)"', expression)
        if name == "hermesops:instance_metrics:sum"
    ]
    known = {*exposition._COUNTERS, *exposition._GAUGES}
    assert {f"hermes_{name}" for name in pattern.split("|")} == known


class _Ports(dict[str, int]):
    """Any port."""

    def __getattr__(self, _name: str) -> int:
        return 1
