"""The router's figures, as Prometheus reads them; no label names an instance or a user."""

from collections import Counter
from collections.abc import Callable, Mapping
from threading import Lock

BUCKETS_S = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Metrics:
    """Counters and one histogram, without labels of instances or users.

    Args:
        gauges: Functions that return a figure at each scrape, by name.
    """

    def __init__(self, gauges: Mapping[str, Callable[[], float]]) -> None:
        self._gauges = gauges
        self._lock = Lock()
        self._counts: Counter[tuple[str, tuple[tuple[str, str], ...]]] = Counter()
        self._sums: dict[str, float] = {}

    def count(self, name: str, amount: int = 1, /, **labels: str) -> None:
        """Add an amount to a counter with these labels."""
        with self._lock:
            self._counts[name, tuple(sorted(labels.items()))] += amount

    def took(self, model: str, seconds: float) -> None:
        """Add the duration of a model's answer to the histogram, in seconds."""
        with self._lock:
            for bound in (*BUCKETS_S, float("inf")):
                if seconds <= bound:
                    label = "+Inf" if bound == float("inf") else f"{bound:g}"
                    self._counts["hermes_router_seconds_bucket", (("le", label), ("model", model))] += 1
            self._counts["hermes_router_seconds_count", (("model", model),)] += 1
            self._sums[model] = self._sums.get(model, 0.0) + seconds

    def exposition(self) -> str:
        """Render all figures in Prometheus's text format."""
        with self._lock:
            lines = [f"{name}{_labels(labels)} {amount}" for (name, labels), amount in sorted(self._counts.items())]
            lines += [
                f'hermes_router_seconds_sum{{model="{model}"}} {s:.6f}' for model, s in sorted(self._sums.items())
            ]
        lines += [f"{name} {_number(read())}" for name, read in sorted(self._gauges.items())]
        return "\n".join([*lines, ""])


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:.15g}"


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
