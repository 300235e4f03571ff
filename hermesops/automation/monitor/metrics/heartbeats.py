"""Heartbeats, as Prometheus has them: one question for all instances, and answers of which nothing is believed. Pure.

hermes-ingest keeps the newest heartbeat of each machine and tells it as the platform's own figure, so that no machine
can send so much that this question takes too long. It vouches for the label ``instance_id``, not for times and values,
which are the machines'.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hermesops.model.fleet.health import HEARTBEAT_S, GatewayHealth
from hermesops.model.fleet.overview import ExpectedInstance
from hermesops.model.ids import InstanceId

METRIC, SAMPLED = "hermes_platform_heartbeat_timestamp_seconds", "hermes_platform_heartbeat_sampled_timestamp_seconds"
"""When hermes-node wrote its metrics, by its machine's clock: the heartbeat; and when these were read on the machine (a
collector may go on when hermes-node does not). Both as hermes-ingest tells them, each of one machine."""

_WRITTEN, _SAMPLED, _GATEWAY = "written", "sampled", "gateway"


def _labelled(expression: str, what: str) -> str:
    return f'label_replace({expression}, "what", "{what}", "", "")'


def _last(metric: str) -> str:
    """The last value within five minutes: while the platform's services restart, no machine is silent."""
    return f'last_over_time({metric}{{origin="platform"}}[5m])'


QUERY = " or ".join(
    (
        _labelled(f"max by (instance_id) ({_last(METRIC)})", _WRITTEN),
        _labelled(f"max by (instance_id) ({_last(SAMPLED)})", _SAMPLED),
        _labelled(f"max by (instance_id, status) ({_last('hermes_platform_heartbeat_agent_health')}) == 1", _GATEWAY),
    )
)
"""The heartbeats of all instances, when each was sampled, and how hermes-node found its gateway."""

_CLOCK_S = 5.0
"""Seconds by which a heartbeat may be in the future; one further ahead is none."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last of one instance, in seconds since 1970; ``None`` where it does not count.

    Attributes:
        written: When hermes-node wrote its metrics.
        sampled: When they were last read on the machine.
        gateway: What hermes-node said of its gateway then; of several answers the worst.
    """

    written: float | None = None
    sampled: float | None = None
    gateway: GatewayHealth | None = None

    @property
    def last(self) -> float | None:
        """Time of the last heartbeat or sample in seconds since 1970; ``None`` if there was none."""
        known = [moment for moment in (self.written, self.sampled) if moment is not None]
        return max(known) if known else None


def parse(samples: Iterable[Any], *, now_s: float) -> dict[InstanceId, Heartbeat]:
    """The heartbeats in a vector of Prometheus, by instance; other samples are left out."""
    written: dict[InstanceId, float] = {}
    sampled: dict[InstanceId, float] = {}
    gateways: dict[InstanceId, GatewayHealth] = {}
    for sample in samples:
        try:
            labels, value = sample["metric"], float(sample["value"][1])
            instance_id, what = labels["instance_id"], labels["what"]
            status = GatewayHealth(labels["status"]) if what == _GATEWAY else None
        except (TypeError, ValueError, LookupError, OverflowError):
            continue
        if status and isinstance(instance_id, str):
            key = InstanceId(instance_id)
            gateways[key] = max(gateways.get(key, status), status, key=list(GatewayHealth).index)
            continue
        if not isinstance(instance_id, str) or not 0 < value <= now_s + _CLOCK_S:  # false for NaN
            continue
        moments = written if what == _WRITTEN else sampled
        key = InstanceId(instance_id)
        moments[key] = max(min(value, now_s), moments.get(key, 0.0))
    return {
        instance_id: Heartbeat(written.get(instance_id), sampled.get(instance_id), gateways.get(instance_id))
        for instance_id in written.keys() | sampled.keys()
    }


def newer(instances: tuple[ExpectedInstance, ...], beats: Mapping[InstanceId, Heartbeat]) -> dict[InstanceId, datetime]:
    """The heartbeats to record: those of instances whose recorded one is at least one interval older."""
    heartbeats = {}
    for instance in instances:
        beat = beats.get(instance.id)
        if beat is None or beat.written is None:
            continue
        recorded = instance.last_heartbeat.timestamp() if instance.last_heartbeat else 0.0
        if beat.written - recorded >= HEARTBEAT_S:
            heartbeats[instance.id] = datetime.fromtimestamp(beat.written, UTC)
    return heartbeats


def changed(
    instances: tuple[ExpectedInstance, ...], beats: Mapping[InstanceId, Heartbeat]
) -> dict[InstanceId, GatewayHealth | None]:
    """Gateways' states as machines report them, where they differ from the recorded ones."""
    states = {
        instance.id: (beats[instance.id].gateway, instance.reported_gateway)
        for instance in instances
        if instance.id in beats
    }
    return {instance_id: now for instance_id, (now, recorded) in states.items() if now is not recorded}


def possible(at: datetime | None, now_s: float) -> float | None:
    """A recorded moment in seconds since 1970; ``None`` for none, or for one in the future."""
    return None if at is None or at.timestamp() > now_s + HEARTBEAT_S else at.timestamp()


def latest(*moments: float | None) -> float | None:
    """The latest of moments in seconds since 1970; ``None`` where there is none."""
    return max((moment for moment in moments if moment is not None), default=None)
