"""The metrics of a machine: their names and descriptions, and the text for node_exporter.

No label identifies the machine: the platform adds that from the machine's certificate.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/, text format 0.0.4.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite

_LABEL = re.compile(r"[A-Za-z0-9_.:+-]{1,80}")
"""A label's value: nothing that needs quoting, so that no text of the agent's can be in one."""

_COUNTERS = {
    "hermes_gateway_restarts_total": "Restarts of the gateway since the boot, by systemd and by hermes-node",
    "hermes_gateway_errors_total": "Errors that the agent has logged since the boot",
    "hermes_database_malformed_total": "Lines of the agent's log since boot or restore that call a database malformed",
    "hermes_turns_total": "Turns of the agent since the boot, by outcome",
    "hermes_model_errors_total": "Failed calls of the model since the boot, by HTTP status",
    "hermes_own_model_errors_total": "Failed calls of a user's own model provider since the boot, by HTTP status",
    "hermes_own_tokens_spent_total": "Tokens of the agent's calls of its user's own model provider since the boot",
    "hermes_tokens_spent_total": "Tokens of the agent's own calls of the model since the boot",
    "hermes_metrics_errors_total": "Parts of these metrics that could not be read since the boot",
}
_GAUGES = {
    "hermes_metrics_timestamp_seconds": "Time of this report",
    "hermes_node_info": "Versions of the machine's programs",
    "hermes_personalised": "Whether the machine belongs to an instance",
    "hermes_fenced": "Whether nothing may start the gateway",
    "hermes_break_glass_open": "Whether an operator's SSH access is open",
    "hermes_agent_health": "Status that the gateway reports: one status is 1",
    "hermes_agent_up": "Whether the gateway's API answers with the instance's key",
    "hermes_gateway_up": "Whether the gateway's unit is active",
    "hermes_gateway_memory_bytes": "Memory of the gateway and all it started, without caches",
    "hermes_gateway_memory_max_bytes": "The cap of that memory",
    "hermes_turn_seconds": "Seconds that the last probe's turn took",
    "hermes_queue_age_seconds": "Seconds since the oldest due cron job became due",
    "hermes_jobs_ended": "Cron jobs whose last run ended within the hour, by outcome",
    "hermes_runs_in_flight": "Present work of the agent",
    "hermes_messenger_connected": "Whether a messenger of the instance is connected",
    "hermes_database_bytes": "Size of a database of the agent with its write-ahead log",
    "hermes_database_integrity": "Whether the last check of a database found it undamaged",
    "hermes_last_backup_timestamp_seconds": "Time of the last backup of this instance from this machine",
    "hermes_release_info": "The release that the gateway is started from",
    "hermes_release_change_pending": "Whether a change of release is unfinished",
    "hermes_certificate_not_after_timestamp_seconds": "Expiry of the machine's certificate",
    "hermes_router_token_not_after_timestamp_seconds": "Expiry of the instance's token for the model router",
    "hermes_clock_offset_seconds": "The platform's clock minus this machine's",
    "hermes_data_bytes": "The file system of the user's data",
}


@dataclass(frozen=True)
class Sample:
    """One value of a metric, which is one of those above.

    Attributes:
        labels: Their values are from fixed sets, or checked by a strict pattern.
    """

    name: str
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


def render(samples: Iterable[Sample]) -> bytes:
    """The text of samples, metric by metric.

    Raises:
        ValueError: A value is no number, a label is malformed, or two samples are of one series.
        KeyError: A name is none of ours.
    """
    lines: dict[str, list[str]] = {}
    rendered: set[str] = set()
    for sample in samples:
        series = _series(sample)
        if series in rendered:
            raise ValueError(f"{series} occurs twice")
        if not isfinite(sample.value):
            raise ValueError(f"{series} is no number")
        rendered.add(series)
        lines.setdefault(sample.name, _head(sample.name)).append(f"{series} {_number(sample.value)}")
    return "".join(f"{line}\n" for name in sorted(lines) for line in lines[name]).encode()


def checked(samples: Iterable[Sample]) -> list[Sample]:
    """Check that each sample can be rendered; return the samples.

    Raises:
        ValueError: A sample cannot be rendered.
        KeyError: A name is none of ours.
    """
    result = list(samples)
    render(result)
    return result


def _series(sample: Sample) -> str:
    for value in sample.labels.values():
        if _LABEL.fullmatch(value) is None:
            raise ValueError(f"{sample.name}: a label is malformed")
    if not sample.labels:
        return sample.name
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}"


def _head(name: str) -> list[str]:
    kind, about = ("counter", _COUNTERS[name]) if name in _COUNTERS else ("gauge", _GAUGES[name])
    return [f"# HELP {name} {about}.", f"# TYPE {name} {kind}"]


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
