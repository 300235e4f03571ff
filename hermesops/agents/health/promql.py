"""The PromQL of each figure: data, so that a fleet with other exporters can have its own.

Every series carries the label ``instance_id``. ``$instances`` is a regular expression of the ids asked about, and
``$window`` the stretch of time that ends at the moment of evaluation.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from string import Template

from hermesops.model.fleet.vitals import Vital
from hermesops.model.ids import InstanceId

LABEL = "instance_id"
"""Names the instance of a series."""

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


@dataclass(frozen=True)
class Query:
    """The query for one figure.

    Attributes:
        expression: PromQL that yields one sample for each instance.
    """

    metric: str
    expression: str

    def promql(self, instances: Collection[InstanceId], window_s: int) -> str:
        """The expression for these instances over so many seconds."""
        names = "|".join(sorted(re.escape(each) for each in instances)).replace("\\", "\\\\")
        return Template(self.expression).substitute(instances=names, window=f"{max(1, window_s)}s")


DEFAULTS: Mapping[Vital, Query] = {
    Vital.GATEWAY_ERRORS: Query(
        "hermes_gateway_errors_total",
        'sum by (instance_id) (rate(hermes_gateway_errors_total{instance_id=~"$instances"}[$window])) * 3600',
    ),
    Vital.RESTARTS: Query(
        "hermes_gateway_restarts_total",
        'sum by (instance_id) (rate(hermes_gateway_restarts_total{instance_id=~"$instances"}[$window])) * 3600',
    ),
    Vital.TURN_LATENCY: Query(
        "hermes_turn_seconds",
        'avg by (instance_id) (quantile_over_time(0.5, hermes_turn_seconds{instance_id=~"$instances"}[$window]))',
    ),
    Vital.MEMORY: Query(
        "hermes_gateway_memory_bytes",
        "avg by (instance_id) "
        '(quantile_over_time(0.5, hermes_gateway_memory_bytes{instance_id=~"$instances"}[$window]))',
    ),
    Vital.QUEUE_AGE: Query(
        "hermes_queue_age_seconds",
        'max by (instance_id) (max_over_time(hermes_queue_age_seconds{instance_id=~"$instances"}[$window]))',
    ),
}


def is_metric(name: str) -> bool:
    """Whether a series can have that name."""
    return bool(_NAME.fullmatch(name))
