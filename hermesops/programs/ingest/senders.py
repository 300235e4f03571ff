"""Rewrites the series of each sender: sets the sender's identity and enforces its limits. Pure but for time.

A sender repeats its series with each write, so the rewritten labels are cached under the sent labels; the cache also
counts the sender's series. All limits belong to a machine, not to the user in its certificate: a new identity does not
reset them.
"""

import re
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b

from hermesops.programs.ingest.allowance import Allowance
from hermesops.programs.ingest.heartbeats import Figure, FigureValue, Heartbeat, figure_of
from hermesops.programs.ingest.remote_write import (
    Label,
    RawSeries,
    encode_labels,
    encode_sample,
    encode_series,
    labels_in,
    value_in,
)

_ORIGIN = b"origin"
"""Label of what Prometheus itself reads on this host, by which rules know it: never of what anybody sends."""

IDENTITY = (b"instance_id", b"cell", b"machine", b"source", _ORIGIN)
"""Labels that no sender gives itself, save services the first two."""

_OURS = "hermesops"
_NAME_LABEL = b"__name__"
_METRIC = re.compile(rb"[a-zA-Z_][a-zA-Z0-9_]*")
_LABEL_NAME = re.compile(rb"[a-zA-Z][a-zA-Z0-9_]*|_[a-zA-Z0-9][a-zA-Z0-9_]*")
_HOSTS_JOBS = frozenset({b"platform", b"host", b"heartbeats"})
"""Labels ``job`` of what Prometheus itself reads on this host: people read them, rules do not trust them."""

_RESERVED = re.compile(rb"ALERTS.*|hermes_platform_.*")
_OF_HERMESOPS = re.compile(rb"hermesops_.*")
_OF_MACHINES = re.compile(rb"(hermes|node)_.*")

_SECOND_MS = 1000


@dataclass(frozen=True)
class Limits:
    """Limits of one sender. A machine of ours has some 200 series and writes 15 samples a second.

    Attributes:
        series: Different ones within ``turn_s``; further ones are dropped.
        label_bytes: Of all their labels together, within ``turn_s``; they are kept here and in Prometheus's memory.
        labels: Of a series.
        series_bytes: Of all labels of a series.
        samples_per_s: In the long run; those of half an hour may come at once, as after one that it was cut off.
        work_per_s: Seconds of this process's time for each second, in the long run.
        work_s: Seconds of this process's time at once.
        requests: At once; further ones are refused.
        own_times: How many times as much hermesops' own processes may, of which the monitor tells of every instance.
        ahead_s: How far a sample may be ahead of this host's clock; a later one counts as of now, as Prometheus shows
            none before its time.
        behind_s: How old a sample may be; an older one is dropped.
        turn_s: Seconds after which a series that was not written again counts no more.
        senders: How many are remembered; then those that have not written for longest are forgotten.
    """

    series: int = 2000
    label_bytes: int = 1 << 20
    labels: int = 40
    series_bytes: int = 4096
    samples_per_s: float = 33.0
    work_per_s: float = 0.01
    work_s: float = 0.5
    requests: int = 2
    own_times: int = 500
    ahead_s: float = 15.0
    behind_s: float = 1800.0
    turn_s: float = 3600.0
    senders: int = 10_000


@dataclass(frozen=True)
class Identity:
    """The identity of a sender, as nginx read it from the certificate.

    Attributes:
        machine: Its id; empty for a service.
        source: The service's name; empty for a machine.
    """

    machine: str = ""
    instance_id: str = ""
    cell: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        """A unique name of the sender."""
        return f"service {self.source}" if self.source else self.machine

    @property
    def is_ours(self) -> bool:
        """Whether the sender is a process of hermesops."""
        return self.source == _OURS or self.source.startswith(f"{_OURS}-")

    @cached_property
    def digest(self) -> bytes:
        """Bytes that differ for every identity."""
        fields = (self.machine, self.instance_id, self.cell, self.source)
        return blake2b("\0".join(fields).encode(), digest_size=16).digest()

    @property
    def who(self) -> str:
        """Its labels in the text that Prometheus reads: nginx passes letters, digits and dashes alone."""
        return ",".join(f'{name.decode()}="{text.decode()}"' for name, text in self.labels)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels that the gate sets on each series of the sender."""
        named = (
            (b"instance_id", self.instance_id),
            (b"cell", self.cell),
            (b"machine", self.machine),
            (b"source", self.source),
        )
        return tuple((name, text.encode()) for name, text in named if text)

    @property
    def overwritten(self) -> frozenset[bytes]:
        """Labels that the sender cannot set itself."""
        return frozenset({b"source", b"machine", _ORIGIN} if self.source else IDENTITY)

    def may_name(self, metric: bytes) -> bool:
        """Whether the sender may write a metric of that name. No sender may write a metric of another."""
        if _RESERVED.fullmatch(metric):
            return False
        if self.is_ours:
            return bool(_OF_HERMESOPS.fullmatch(metric))
        if self.source and _OF_MACHINES.fullmatch(metric):
            return False
        return not _OF_HERMESOPS.fullmatch(metric)


@dataclass
class Counts:
    """Counters of series and samples by outcome.

    Attributes:
        read: Samples that arrived, as far as the sender's allowance goes.
        written: Samples that were forwarded.
        dropped: Series and samples that were dropped, by reason.
    """

    read: int = 0
    written: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    def drop(self, why: str, count: int = 1) -> None:
        """Count dropped series or samples under a reason."""
        self.dropped[why] += count

    def add(self, other: "Counts") -> None:
        """Add the counters of another object."""
        self.read += other.read
        self.written += other.written
        self.dropped += other.dropped


@dataclass(frozen=True, slots=True)
class _Known:
    """The cached decision about a series.

    Attributes:
        labels: Encoded labels to write; empty for a dropped series.
        why: Reason for dropping it.
        figure: The heartbeat figure that it carries, if any.
    """

    labels: bytes
    why: str = ""
    figure: Figure | None = None


_BAD_LABELS, _BAD_NAME = _Known(b"", "labels"), _Known(b"", "name")
_TOO_MANY = _Known(b"", "series")


class Sender:
    """One sender, with its cached series, counters and used allowances.

    Attributes:
        identity: Identity of the last write.
        heartbeat: Latest heartbeat of its machine.
        refused: Number of refused requests.

    Call ``enter`` and ``leave`` under the lock of all senders; ``rewrite`` takes a lock of this sender alone.
    """

    def __init__(self, identity: Identity, limits: Limits, now_s: float) -> None:
        times = limits.own_times if identity.is_ours else 1
        self.identity = identity
        self.heartbeat = Heartbeat("", "", "")
        self.refused = 0
        self._limits = limits
        self._lock = threading.Lock()
        self._samples = Allowance(limits.samples_per_s * times, limits.samples_per_s * limits.behind_s * times, now_s)
        self._work = Allowance(limits.work_per_s * times, limits.work_s * times, now_s)
        self._requests, self._most_requests = 0, limits.requests * times
        self._most, self._most_bytes = limits.series * times, limits.label_bytes * times
        self._since_s = now_s
        self._known: dict[bytes, _Known] = {}
        self._before: dict[bytes, _Known] = {}
        self._bytes = 0

    @property
    def series(self) -> int:
        """Number of series written within this turn."""
        return len(self._known)

    def enter(self, now_s: float) -> str:
        """Admit one request, or return the reason for refusing it."""
        refusal = ""
        if self._requests >= self._most_requests:
            refusal = "requests"
        elif self._work.is_overdrawn(now_s):
            refusal = "work"
        elif self._samples.is_overdrawn(now_s):
            refusal = "samples"
        if refusal:
            self.refused += 1
        else:
            self._requests += 1
        return refusal

    def leave(self, samples: int, work_s: float) -> None:
        """End an admitted request and charge its cost.

        Args:
            work_s: Seconds of processor time that it took.
        """
        self._requests -= 1
        self._samples.use(samples)
        self._work.use(work_s)

    def rewrite(self, identity: Identity, series: Iterable[RawSeries], now_s: float, counts: Counts) -> bytes:
        """Rewrite series under an identity of the sender and encode them; forbidden series are dropped and counted.

        Series beyond the sender's allowance of samples are dropped as well: its debt would silence it for long.

        Raises:
            MalformedError: Labels are malformed.
        """
        with self._lock:
            if now_s - self._since_s >= self._limits.turn_s:
                self._known, self._before, self._since_s, self._bytes = {}, self._known, now_s, 0
            out: list[bytes] = []
            heard: list[tuple[Figure, FigureValue]] = []
            # Requests of one sender at the same time share the debt that they may make.
            room = int(self._samples.left + self._samples.most_debt / self._most_requests)
            for raw in series:
                if counts.read + len(raw.samples) > room:
                    counts.drop("samples", len(raw.samples))
                    counts.read = max(counts.read, room)
                    continue
                counts.read += len(raw.samples)
                known = self._known_of(identity, raw.labels)
                if known.why:
                    counts.drop(known.why)
                elif samples := self._in_time(raw, now_s, counts):
                    counts.written += len(samples)
                    out.append(encode_series(known.labels, [sample for _, sample in samples]))
                    if known.figure:
                        at_ms, sample = max(samples)
                        heard.append((known.figure, FigureValue(at_ms, value_in(sample), now_s)))
            self._hear(identity, heard, now_s)
            return b"".join(out)

    def _hear(self, identity: Identity, heard: Sequence[tuple[Figure, FigureValue]], now_s: float) -> None:
        """Update the machine's heartbeat from a request; a changed instance starts with an empty one."""
        who = (identity.instance_id, identity.cell, identity.machine)
        last = self.heartbeat
        if who != (last.instance_id, last.cell, last.machine):
            last = Heartbeat(*who)
        if heard:
            self.heartbeat = last.after(heard, now_s)

    def _in_time(self, raw: RawSeries, now_s: float, counts: Counts) -> Sequence[tuple[int, bytes]]:
        """Samples within the time limits. Of later samples the last one counts as of now: the clock may be fast."""
        now_ms = int(now_s * _SECOND_MS)
        latest, oldest = now_ms + self._limits.ahead_s * _SECOND_MS, now_ms - self._limits.behind_s * _SECOND_MS
        samples = [pair for pair in raw.samples if oldest <= pair[0] <= latest]
        if len(samples) == len(raw.samples):
            return samples
        ahead = [sample for at, sample in raw.samples if at > latest]
        if old := len(raw.samples) - len(samples) - len(ahead):
            counts.drop("old", old)
        if ahead:
            counts.drop("ahead", len(ahead))
            if not samples:
                samples = [(now_ms, encode_sample(value_in(ahead[-1]), now_ms))]
        return samples

    def _known_of(self, identity: Identity, raw: bytes) -> _Known:
        """The decision about a series with these labels, from the cache where possible."""
        if len(raw) > self._limits.series_bytes:
            return _BAD_LABELS
        key = blake2b(raw, digest_size=16, key=identity.digest).digest()
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._most or self._bytes >= self._most_bytes:
                return _TOO_MANY
            known = self._known[key] = self._before.get(key) or self._rewritten(identity, raw)
            self._bytes += len(known.labels)
        return known

    def _rewritten(self, identity: Identity, raw: bytes) -> _Known:
        """Rewrite labels under this identity, sorted and unique; or give the reason for dropping the series."""
        pairs = labels_in(raw)
        labels = dict(pairs)
        if len(labels) < len(pairs) or len(labels) > self._limits.labels or not all(map(_is_label, pairs)):
            return _BAD_LABELS
        if labels.get(b"job") in _HOSTS_JOBS:
            return _BAD_LABELS
        metric = labels.get(_NAME_LABEL, b"")
        if not _METRIC.fullmatch(metric) or not identity.may_name(metric):
            return _BAD_NAME
        overwritten = identity.overwritten
        remaining = {name: text for name, text in labels.items() if text and name not in overwritten}
        encoded = encode_labels(sorted({**remaining, **dict(identity.labels)}.items()))
        return _Known(encoded, figure=figure_of(metric, labels.get(b"status", b"")) if identity.machine else None)


class Senders:
    """All senders. Call its methods under the lock of all senders."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[str, Sender] = {}
        self.counts = Counts()

    def sender(self, identity: Identity, now_s: float) -> Sender:
        """The sender of an identity: one machine is one sender, regardless of its user."""
        sender = self._known.pop(identity.key, None) or Sender(identity, self._limits, now_s)
        sender.identity = identity
        self._known[identity.key] = sender  # the last: those at the front have not written for longest
        while len(self._known) > self._limits.senders:
            del self._known[next(iter(self._known))]
        return sender

    def all(self) -> list[Sender]:
        """All senders that are remembered, oldest write first."""
        return list(self._known.values())


def _is_label(label: Label) -> bool:
    name, text = label
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return name == _NAME_LABEL or _LABEL_NAME.fullmatch(name) is not None
