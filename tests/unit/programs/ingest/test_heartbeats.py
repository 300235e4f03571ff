"""What ingest keeps of each machine's heartbeat, and tells Prometheus as the platform's own."""

import math

from hermesops.programs.ingest.heartbeats import TOLD_S
from hermesops.programs.ingest.remote_write import Label, RawSeries, encode_labels, encode_sample
from hermesops.programs.ingest.senders import Counts, Identity, Limits, Sender, Senders

NOW = 1_800_000_000.0
MACHINE = Identity("m-1", "i-1", "cell1")
WHO = 'instance_id="i-1",cell="cell1",machine="m-1"'
WRITTEN = "hermes_metrics_timestamp_seconds"


def series(metric: str, value: float, *labels: Label, at_s: float = NOW) -> RawSeries:
    at = int(at_s * 1000)
    return RawSeries(encode_labels([(b"__name__", metric.encode()), *labels]), [(at, encode_sample(value, at))])


def wrote(
    *all_series: RawSeries, identity: Identity = MACHINE, now: float = NOW, sender: Sender | None = None
) -> Sender:
    sender = sender or Senders(Limits()).sender(identity, now)
    sender.rewrite(identity, all_series, now, Counts())
    return sender


def told(sender: Sender, now: float = NOW) -> dict[str, float]:
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in sender.heartbeat.lines(now))}


def test_a_heartbeat_is_told_with_the_identity_of_the_certificate() -> None:
    sender = wrote(
        series(WRITTEN, NOW - 8, (b"instance_id", b"victim"), at_s=NOW - 3),
        series("hermes_clock_offset_seconds", 0.5),
        series("hermes_fenced", 0),
        series("hermes_agent_health", 1, (b"status", b"ok")),
        series("hermes_agent_health", 0, (b"status", b"silent")),
        series("hermes_agent_up", 1),
    )
    assert told(sender) == {
        f"hermes_platform_heartbeat_timestamp_seconds{{{WHO}}}": NOW - 8,
        f"hermes_platform_heartbeat_sampled_timestamp_seconds{{{WHO}}}": NOW - 3,
        f"hermes_platform_heartbeat_clock_offset_seconds{{{WHO}}}": 0.5,
        f"hermes_platform_heartbeat_fenced{{{WHO}}}": 0.0,
        f'hermes_platform_heartbeat_agent_health{{{WHO},status="ok"}}': 1.0,
        f'hermes_platform_heartbeat_agent_health{{{WHO},status="silent"}}': 0.0,
    }


def test_the_newest_counts_whatever_comes_late_or_is_there_twice() -> None:
    sender = wrote(
        series(WRITTEN, NOW - 50, at_s=NOW - 45),
        series(WRITTEN, NOW - 20, at_s=NOW - 15),
        series(WRITTEN, NOW - 90, (b"x", b"other"), at_s=NOW - 15),
    )
    wrote(series(WRITTEN, NOW - 500, at_s=NOW - 400), sender=sender)
    assert told(sender)[f"hermes_platform_heartbeat_timestamp_seconds{{{WHO}}}"] == NOW - 20


def test_what_does_not_come_any_more_is_not_told_for_long() -> None:
    sender = wrote(series(WRITTEN, NOW), series("hermes_agent_health", 1, (b"status", b"ok")))
    assert len(told(sender, NOW + TOLD_S)) == 3
    wrote(series(WRITTEN, NOW + 50), now=NOW + 50, sender=sender)
    assert len(told(sender, NOW + TOLD_S + 1)) == 2, "a status that its machine takes back is not told for ever"
    assert told(sender, NOW + 50 + TOLD_S + 1) == {}


def test_a_machine_that_changes_hands_says_nothing_of_whom_it_had_before() -> None:
    sender = wrote(series(WRITTEN, NOW), series("hermes_fenced", 1))
    wrote(series(WRITTEN, NOW + 1), identity=Identity("m-1", "i-2", "cell2"), sender=sender)
    assert set(told(sender)) == {
        f'hermes_platform_heartbeat_{name}{{instance_id="i-2",cell="cell2",machine="m-1"}}'
        for name in ("timestamp_seconds", "sampled_timestamp_seconds")
    }


def test_nobody_is_told_of_who_has_no_instance_and_services_have_no_heartbeat() -> None:
    assert told(wrote(series(WRITTEN, NOW), identity=Identity("m-2"))) == {}
    assert told(wrote(series(WRITTEN, NOW), identity=Identity(source="hermesops"))) == {}


def test_one_machine_has_no_more_than_some_figures_whatever_it_invents() -> None:
    many = [series("hermes_agent_health", 1, (b"status", bytes([97 + n % 26, 97 + n // 26]))) for n in range(500)]
    strange = [series("hermes_agent_health", 1, (b"status", text)) for text in (b'o"k', b"o\nk", b"", b"a" * 17)]
    sender = wrote(series(WRITTEN, math.nan), *strange, *many)
    lines = list(sender.heartbeat.lines(NOW))
    assert len(lines) <= 17
    assert lines[0] == f"hermes_platform_heartbeat_timestamp_seconds{{{WHO}}} nan"
    assert not any("\n" in line or 'o"k' in line for line in lines)
