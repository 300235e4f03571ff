"""What each sender's series become: its own identity on them, and no more of them than it may have. Pure but for time.

A sender repeats its series with each write, so what became of a series is remembered by its encoded labels; that
memory is also what counts a sender's series.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from hermesops.ingest.remote_write import (
    Label,
    RawSeries,
    encode_labels,
    encode_sample,
    encode_series,
    labels_in,
    value_in,
)

IDENTITY = (b"instance_id", b"cell", b"machine", b"source")
"""Labels that no sender gives itself, save services the first two."""

_OURS = "hermesops"
_NAME_LABEL = b"__name__"
_METRIC = re.compile(rb"[a-zA-Z_][a-zA-Z0-9_]*")
_LABEL_NAME = re.compile(rb"[a-zA-Z][a-zA-Z0-9_]*|_[a-zA-Z0-9][a-zA-Z0-9_]*")
_HOSTS_JOB = b"platform"
"""Label ``job`` of what Prometheus itself reads from this host's services."""

_RESERVED = re.compile(rb"ALERTS.*|hermes_platform_.*")
_OF_HERMESOPS = re.compile(rb"hermesops_.*")
_OF_MACHINES = re.compile(rb"(hermes|node)_.*")

_BAD_LABELS, _BAD_NAME = b"l", b"n"
_WHY = {_BAD_LABELS: "labels", _BAD_NAME: "name"}

_SECOND_MS = 1000


@dataclass(frozen=True)
class Limits:
    """What a sender may write.

    Attributes:
        series: Different ones within ``turn_s``; further ones are dropped.
        own_series: The same for hermesops' own processes, of which the monitor tells of every instance.
        labels: Of a series.
        series_bytes: Of all labels of a series.
        ahead_s: How far a sample may be ahead of this host's clock; a later one counts as of now, as Prometheus shows
            none before its time.
        behind_s: How old a sample may be; an older one is dropped.
        turn_s: Seconds after which a series that was not written again counts no more.
        senders: How many are remembered; then those that have not written for longest are forgotten.
    """

    series: int = 5000
    own_series: int = 1_000_000
    labels: int = 40
    series_bytes: int = 4096
    ahead_s: float = 15.0
    behind_s: float = 1800.0
    turn_s: float = 3600.0
    senders: int = 10_000


@dataclass(frozen=True)
class Identity:
    """Who writes, as nginx read it from a certificate.

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
        """A name of its own for each sender."""
        return f"service {self.source}" if self.source else self.machine

    @property
    def labels(self) -> tuple[Label, ...]:
        """What its series bear whatever it says."""
        named = (
            (b"instance_id", self.instance_id),
            (b"cell", self.cell),
            (b"machine", self.machine),
            (b"source", self.source),
        )
        return tuple((name, text.encode()) for name, text in named if text)

    @property
    def overwritten(self) -> frozenset[bytes]:
        """Labels that it cannot give itself."""
        return frozenset({b"source", b"machine"} if self.source else IDENTITY)

    def may_name(self, metric: bytes) -> bool:
        """Whether it may write a metric of that name: nobody writes another's."""
        if _RESERVED.fullmatch(metric):
            return False
        if self.source == _OURS or self.source.startswith(f"{_OURS}-"):
            return bool(_OF_HERMESOPS.fullmatch(metric))
        if self.source and _OF_MACHINES.fullmatch(metric):
            return False
        return not _OF_HERMESOPS.fullmatch(metric)


@dataclass
class Counts:
    """What became of series and samples, since this process started."""

    written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    def drop(self, why: str, count: int = 1) -> None:
        """Count what was dropped."""
        self.dropped[why] = self.dropped.get(why, 0) + count


class Sender:
    """One sender, with what became of its series."""

    def __init__(self, identity: Identity, limits: Limits, now_s: float) -> None:
        self.identity = identity
        self._limits = limits
        self._since_s = now_s
        self._most = limits.own_series if identity.source.startswith("hermesops") else limits.series
        self._known: dict[bytes, bytes] = {}
        self._before: dict[bytes, bytes] = {}

    @property
    def series(self) -> int:
        """How many it has written within this turn."""
        return len(self._known)

    def rewrite(self, series: Iterable[RawSeries], now_s: float, counts: Counts) -> bytes:
        """The series under its identity, encoded; what it may not write is left out and counted.

        Raises:
            MalformedError: Labels are malformed.
        """
        if now_s - self._since_s >= self._limits.turn_s:
            self._known, self._before, self._since_s = {}, self._known, now_s
        now_ms = int(now_s * _SECOND_MS)
        latest, oldest = now_ms + self._limits.ahead_s * _SECOND_MS, now_ms - self._limits.behind_s * _SECOND_MS
        out = []
        for one in series:
            labels = self._labels(one.labels, counts)
            if not labels:
                continue
            samples = [sample for at, sample in one.samples if oldest <= at <= latest]
            if len(samples) < len(one.samples):
                samples = self._in_time(one, oldest, latest, now_ms, counts)
            if samples:
                counts.written += len(samples)
                out.append(encode_series(labels, samples))
        return b"".join(out)

    def _in_time(self, one: RawSeries, oldest: float, latest: float, now_ms: int, counts: Counts) -> list[bytes]:
        """The samples of its time; of those ahead of it the last one as of now, so that a fast clock is still seen."""
        samples = [sample for at, sample in one.samples if oldest <= at <= latest]
        ahead = [sample for at, sample in one.samples if at > latest]
        counts.drop("old", len(one.samples) - len(samples) - len(ahead))
        if ahead:
            counts.drop("ahead", len(ahead))
            if not samples:
                samples = [encode_sample(value_in(ahead[-1]), now_ms)]
        return samples

    def _labels(self, raw: bytes, counts: Counts) -> bytes:
        """The labels that a series gets; empty when it is not written."""
        if len(raw) > self._limits.series_bytes:
            counts.drop("labels")
            return b""
        key = blake2b(raw, digest_size=16).digest()
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= self._most:
                counts.drop("series")
                return b""
            found = self._before.get(key)
            self._known[key] = found = self._rewritten(raw) if found is None else found
        if len(found) == 1:
            counts.drop(_WHY[found])
            return b""
        return found

    def _rewritten(self, raw: bytes) -> bytes:
        """The labels under this identity, sorted, each once; or one byte that says why the series is not written."""
        given = labels_in(raw)
        labels = dict(given)
        if len(labels) < len(given) or len(labels) > self._limits.labels or not all(map(_is_label, given)):
            return _BAD_LABELS
        if labels.get(b"job") == _HOSTS_JOB:
            return _BAD_LABELS
        metric = labels.get(_NAME_LABEL, b"")
        if not _METRIC.fullmatch(metric) or not self.identity.may_name(metric):
            return _BAD_NAME
        overwritten = self.identity.overwritten
        kept = {name: text for name, text in labels.items() if text and name not in overwritten}
        return encode_labels(sorted({**kept, **dict(self.identity.labels)}.items()))


class Senders:
    """All senders."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[str, Sender] = {}
        self.counts = Counts()

    def sender(self, identity: Identity, now_s: float) -> Sender:
        """The sender of an identity; one whose instance or cell changed begins anew."""
        found = self._known.pop(identity.key, None)
        if found is None or found.identity != identity:
            found = Sender(identity, self._limits, now_s)
        self._known[identity.key] = found  # the last: those at the front have not written for longest
        while len(self._known) > self._limits.senders:
            del self._known[next(iter(self._known))]
        return found

    def series(self) -> Mapping[str, int]:
        """How many series each sender has."""
        return {key: one.series for key, one in self._known.items()}


def _is_label(label: Label) -> bool:
    name, text = label
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return name == _NAME_LABEL or _LABEL_NAME.fullmatch(name) is not None
