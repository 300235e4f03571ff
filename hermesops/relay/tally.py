"""What the relay did, in counters for Prometheus. Pure."""

from collections import Counter


class Tally:
    """Counts requests by what became of them; a code is one of ours, never what somebody sent."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, outcome: str) -> None:
        """Count one more."""
        self._counts[outcome] += 1

    def text(self, under_way: int) -> bytes:
        """Everything, in Prometheus's text format."""
        lines = ["# TYPE hermesops_relay_requests_total counter"]
        lines += [
            f'hermesops_relay_requests_total{{outcome="{name}"}} {self._counts[name]}' for name in sorted(self._counts)
        ]
        lines += ["# TYPE hermesops_relay_requests_under_way gauge", f"hermesops_relay_requests_under_way {under_way}"]
        return ("\n".join(lines) + "\n").encode()
