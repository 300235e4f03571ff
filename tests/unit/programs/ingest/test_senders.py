"""What becomes of a sender's series: its own identity, once each, in time, and no more of them than it may have."""

import math
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.programs.ingest.allowance import DEBT_S
from hermesops.programs.ingest.remote_write import (
    Label,
    MalformedError,
    RawSeries,
    encode_labels,
    encode_sample,
    encode_series,
    labels_in,
    series_in,
    value_in,
    varint,
)
from hermesops.programs.ingest.senders import Counts, Identity, Limits, Sender, Senders
from tests.support.suite.cases import each_case

NOW = 1_800_000_000.0
MACHINE = Identity("m-1", "i-1", "cell1")
OWN = [(b"cell", b"cell1"), (b"instance_id", b"i-1"), (b"machine", b"m-1")]


def raw(*labels: Label, name: bytes = b"hermes_agent_up", at_s: float = NOW, value: float = 1.0) -> RawSeries:
    at = int(at_s * 1000)
    return RawSeries(encode_labels([(b"__name__", name), *labels]), [(at, encode_sample(value, at))])


def written(
    *series: RawSeries, identity: Identity = MACHINE, now: float = NOW, senders: Senders | None = None
) -> list[tuple[list[Label], list[tuple[int, float]]]]:
    senders = senders or Senders(Limits())
    out = senders.sender(identity, now).rewrite(identity, series, now, senders.counts)
    return [
        (labels_in(sent.labels), [(at, value_in(sample)) for at, sample in sent.samples]) for sent in series_in(out)
    ]


def test_a_series_gets_the_senders_identity_and_keeps_the_rest_sorted() -> None:
    [(labels, samples)] = written(raw((b"zone", b"z"), (b"job", b"node")))
    assert labels == sorted([(b"__name__", b"hermes_agent_up"), (b"job", b"node"), (b"zone", b"z"), *OWN])
    assert samples == [(int(NOW * 1000), 1.0)]


@pytest.mark.parametrize("name", [b"instance_id", b"cell", b"machine", b"source", b"origin"])
def test_a_machine_that_writes_as_another_writes_as_itself(name: bytes) -> None:
    [(labels, _)] = written(raw((name, b"victim")))
    assert [(k, v) for k, v in labels if k != b"__name__"] == OWN


def test_a_machine_without_a_user_has_neither_instance_nor_cell_whatever_it_says() -> None:
    series = raw((b"instance_id", b"victim"), (b"cell", b"c"), (b"origin", b"platform"))
    [(labels, _)] = written(series, identity=Identity("m-2"))
    assert labels == [(b"__name__", b"hermes_agent_up"), (b"machine", b"m-2")]


@each_case(
    "series",
    [
        raw((b"instance_id", b"a"), (b"instance_id", b"b")),
        raw((b"x", b"a"), (b"x", b"b")),
        raw((b"x", b"\xff\xfe")),
        raw((b"not a name", b"x")),
        raw((b"__hidden", b"x")),
        raw((b"", b"x")),
        raw((b"job", b"platform"), name=b"up"),
        raw((b"job", b"host"), name=b"up"),
        raw((b"job", b"heartbeats"), name=b"up"),
        raw(name=b"hermes_platform_heartbeat_timestamp_seconds"),
        raw(name=b""),
        raw(name=b"a:recorded"),
        raw(name=b"bad name{"),
        raw(name=b"hermesops_instance_busy"),
        raw(name=b"hermes_platform_ingest_series"),
        raw(name=b"ALERTS"),
        raw(name=b"ALERTS_FOR_STATE"),
        raw(*((b"l%d" % n, b"x") for n in range(60))),
        raw((b"x", b"y" * 5000)),
        RawSeries(b"", [(int(NOW * 1000), encode_sample(1, int(NOW * 1000)))]),
    ],
)
def test_what_prometheus_or_rules_would_trip_over_is_left_out_and_counted(series: RawSeries) -> None:
    senders = Senders(Limits())
    assert len(written(series, raw(), senders=senders)) == 1
    assert sum(senders.counts.dropped.values()) == 1
    written(series, senders=senders)
    assert sum(senders.counts.dropped.values()) == 2, "counted each time"


@each_case(
    ("source", "name", "goes"),
    [
        ("hermesops", b"hermesops_cell_expected", True),
        ("hermesops-monitor", b"hermesops_cell_expected", True),
        ("hermesops-monitor", b"hermes_agent_up", False),
        ("hermesopsx", b"hermesops_cell_expected", False),
        ("web", b"hermesops_cell_expected", False),
        ("web", b"hermes_agent_up", False),
        ("web", b"node_load1", False),
        ("web", b"web_requests_total", True),
    ],
)
def test_a_service_writes_its_own_metrics_about_any_instance(source: str, name: bytes, *, goes: bool) -> None:
    series = raw((b"instance_id", b"i-9"), (b"source", b"other"), (b"origin", b"platform"), name=name)
    series_written = written(series, identity=Identity(source=source))
    wanted = [(b"__name__", name), (b"instance_id", b"i-9"), (b"source", source.encode())]
    assert [labels for labels, _ in series_written] == ([wanted] if goes else [])


def test_what_is_ahead_counts_as_of_now_and_what_is_old_not_at_all() -> None:
    year = 365 * 86400
    [(_, samples)] = written(raw(at_s=NOW + year, value=7))
    assert samples == [(int(NOW * 1000), 7.0)]
    # Prometheus shows a sample when its time has come: a minute ahead would look like a minute of silence each time.
    [(_, samples)] = written(raw(at_s=NOW + 60, value=7))
    assert samples == [(int(NOW * 1000), 7.0)]
    assert written(raw(at_s=NOW - year)) == []
    assert written(raw(at_s=-1)) == []
    for fine in (NOW - 1799, NOW + 14):
        [(_, samples)] = written(raw(at_s=fine))
        assert samples == [(int(fine * 1000), 1.0)]


def test_of_many_samples_those_in_time_go() -> None:
    times = (NOW - 4000, NOW - 15, NOW, NOW + 4000)
    series = RawSeries(raw().labels, [(int(at * 1000), encode_sample(at, int(at * 1000))) for at in times])
    [(_, samples)] = written(series)
    assert samples == [(int((NOW - 15) * 1000), NOW - 15), (int(NOW * 1000), NOW)]


def test_a_machine_has_so_many_series_an_hour_and_those_it_has_go_on() -> None:
    senders = Senders(Limits(series=3))
    many = [raw((b"n", b"%d" % n)) for n in range(5)]
    assert len(written(*many, senders=senders)) == 3
    assert senders.counts.dropped == {"series": 2}
    assert len(written(*many[:3], senders=senders)) == 3
    assert len(written(raw(), identity=Identity("m-2"), senders=senders)) == 1, "another machine's are its own"
    assert written(many[4], senders=senders, now=NOW + 3599) == []
    assert len(written(many[4], senders=senders, now=NOW + 3600)) == 0, "too old by then"
    fresh = raw((b"n", b"4"), at_s=NOW + 3600)
    assert len(written(fresh, senders=senders, now=NOW + 3600)) == 1


def test_a_machine_that_changes_hands_writes_as_the_new_one_and_no_more_than_one_machine_may() -> None:
    senders, names = Senders(Limits(series=5)), [raw((b"n", b"%d" % n)) for n in range(5)]
    both = (MACHINE, Identity("m-1"))
    [(labels, _)] = written(names[0], senders=senders)
    assert (b"instance_id", b"i-1") in labels
    [(labels, _)] = written(names[0], identity=both[1], senders=senders)
    assert (b"machine", b"m-1") in labels
    assert b"instance_id" not in dict(labels)
    for turn in range(20):  # two certificates by turns are one machine
        written(*names, identity=both[turn % 2], senders=senders)
    assert senders.sender(MACHINE, NOW).series == 5


def test_labels_of_a_machine_take_so_much_memory_an_hour() -> None:
    senders = Senders(Limits(label_bytes=10_000))
    series_written = written(*(raw((b"n", b"%d" % n), (b"x", b"y" * 3000)) for n in range(10)), senders=senders)
    assert (len(series_written), dict(senders.counts.dropped)) == (4, {"series": 6})


def entered(sender: Sender, now: float = NOW) -> str:
    """Why a request is refused that then takes nothing."""
    refusal = sender.enter(now)
    if not refusal:
        sender.leave(0, 0.0)
    return refusal


def test_samples_of_a_sender_are_bounded_in_the_long_run_dropped_ones_too() -> None:
    senders, counts = Senders(Limits(samples_per_s=10, behind_s=60)), Counts()
    sender, at = senders.sender(MACHINE, NOW), int(NOW * 1000)
    many = RawSeries(raw().labels, [(at - 90_000, encode_sample(1, at))] * 400 + [(at, encode_sample(1, at))] * 400)
    assert sender.enter(NOW) == ""
    sender.rewrite(MACHINE, [many], NOW, counts)
    sender.leave(counts.read, 0.0)
    assert counts.read == 800
    assert entered(sender) == "samples"
    assert entered(senders.sender(Identity("m-1"), NOW + 1)) == "samples", "another identity is the same machine"
    assert entered(sender, NOW + 19) == "samples"
    assert entered(sender, NOW + 21) == ""
    assert (sender.refused, entered(senders.sender(Identity("m-2"), NOW))) == (3, "")


def flooded(sender: Sender, now: float, *, at_once: int = 2) -> Counts:
    """What comes of as many requests at the same time as are admitted, each as large as one may be."""
    at = int(now * 1000)
    series = [RawSeries(raw((b"n", b"%d" % n)).labels, [(at, encode_sample(1, at))] * 500) for n in range(70)]
    counts = [Counts() for _ in range(at_once) if not sender.enter(now)]
    for count in counts:
        sender.rewrite(MACHINE, series, now, count)
    total = Counts()
    for count in counts:
        sender.leave(count.read, 0.0)
        total.add(count)
    return total


def test_a_sender_that_flooded_large_bodies_is_heard_again_after_two_minutes() -> None:
    sender = Senders(Limits()).sender(MACHINE, NOW)
    for _ in range(10):
        flooded(sender, NOW)
    assert entered(sender, NOW + DEBT_S - 1) == "samples"
    assert entered(sender, NOW + DEBT_S + 1) == ""


def test_no_flood_brings_more_samples_than_the_rate_of_a_sender_in_the_long_run() -> None:
    limits = Limits()
    sender = Senders(limits).sender(MACHINE, NOW)
    written, seconds = 0, 3600
    for second in range(0, seconds, 10):
        written += flooded(sender, NOW + second).written
    assert written <= limits.samples_per_s * (limits.behind_s + seconds) * 1.2


def test_work_for_a_sender_is_bounded_in_seconds() -> None:
    sender = Senders(Limits(work_per_s=0.01, work_s=0.5)).sender(MACHINE, NOW)
    sender.enter(NOW)
    sender.leave(0, 0.7)
    assert entered(sender, NOW + 19) == "work"
    assert entered(sender, NOW + 21) == ""


def test_a_sender_has_two_requests_at_once_and_hermesops_more() -> None:
    senders = Senders(Limits())
    sender, ours = senders.sender(MACHINE, NOW), senders.sender(Identity(source="hermesops-monitor"), NOW)
    assert [sender.enter(NOW) for _ in range(3)] == ["", "", "requests"]
    sender.leave(0, 0.0)
    assert sender.enter(NOW) == ""
    assert {ours.enter(NOW) for _ in range(100)} == {""}


def test_half_an_hour_that_a_machine_of_ours_was_cut_off_may_come_at_once() -> None:
    sender, figures = Senders(Limits()).sender(MACHINE, NOW), 211 * 4 * 30
    for _ in range(figures // 1000):
        assert sender.enter(NOW) == ""
        sender.leave(1000, 0.008)
    assert entered(sender) == ""


def test_senders_that_have_not_written_for_longest_are_forgotten_first() -> None:
    senders = Senders(Limits(senders=2))
    for name in ("a", "b", "a", "c"):
        senders.sender(Identity(name), NOW)
    assert [sender.identity.machine for sender in senders.all()] == ["a", "c"]


@given(st.binary(max_size=200))
def test_no_bytes_are_taken_for_something_else_or_break_anything(body: bytes) -> None:
    try:
        series = list(series_in(body))
    except MalformedError:
        return
    senders = Senders(Limits())
    try:
        out = senders.sender(MACHINE, NOW).rewrite(MACHINE, series, NOW, senders.counts)
    except MalformedError:
        return
    for sent in series_in(out):
        assert set(OWN) <= set(labels_in(sent.labels))


_TEXT = st.text(max_size=12).map(str.encode)


@given(
    st.lists(st.tuples(_TEXT, _TEXT), max_size=8), st.floats(allow_nan=False), st.integers(-(1 << 63), (1 << 63) - 1)
)
def test_what_is_encoded_is_read_again(labels: Sequence[Label], value: float, at: int) -> None:
    encoded = encode_series(encode_labels(labels), [encode_sample(value, at)])
    [series] = series_in(encoded)
    assert labels_in(series.labels) == list(labels)
    assert [(when, value_in(sample)) for when, sample in series.samples] == [(at, value)]


def test_a_sample_without_a_value_is_nought_and_not_a_number_stays_none() -> None:
    at = int(NOW * 1000)
    assert value_in(b"\x12" + varint(1 + len(varint(at))) + b"\x10" + varint(at)) == 0.0
    stale = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
    assert math.isnan(value_in(encode_sample(stale, at)))


@each_case(
    "body",
    [
        b"\x0a\x00" * 100_000,
        b"\x18\x01" * 100_000,
        b"\x0a" + varint(400_000) + b"\x12\x00" * 200_000,
        b"\x0a" + varint(400_000) + b"\x18\x01" * 200_000,
        b"\x0a" + varint(1003) + b"\x12" + varint(1000) + b"\x18\x01" * 500,
        encode_series(raw().labels, [encode_sample(1, int(NOW * 1000))] * 50_000),
    ],
    ids=["empty series", "strange fields", "empty samples", "strange fields of a series", "a long sample", "samples"],
)
def test_a_request_that_would_take_long_to_read_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedError, match=r"too many|too long"):
        list(series_in(body))


def test_all_series_that_a_sender_may_have_are_read_of_one_request() -> None:
    labels = encode_labels([(b"l%d" % n, b"x") for n in range(12)])
    series = encode_series(labels, [encode_sample(1, int(NOW * 1000))])
    assert len(list(series_in(series * Limits().series))) == Limits().series
