"""How many requests run at the same time, by service and agent, and how requests ended. Pure.

An agent that never ends its answers uses only its own places; the fuller the relay, the fewer it has.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from hermesops.agents.relay.routes import unavailable
from hermesops.base.narration import counted
from hermesops.serving.exchange import RefusedRequestError


@dataclass(frozen=True)
class Most:
    """Limits.

    Attributes:
        per_caller: Of one service, so that no service alone fills the relay.
        per_agent: To one agent; only one when more than half of ``at_once`` are running.
        bodies_bytes: Of requests' bodies in memory.
    """

    at_once: int = 400
    per_caller: int = 300
    per_agent: int = 4
    bodies_bytes: int = 256 << 20


class Places:
    """Counts running requests against the limits."""

    def __init__(self, most: Most | None = None) -> None:
        self._most = most or Most()
        self._callers: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._bodies = 0

    @property
    def taken(self) -> int:
        """Number of requests that run now, of all services."""
        return self._callers.total()

    @contextmanager
    def of_caller(self, name: str) -> Iterator[None]:
        """Hold a place of a service.

        Raises:
            RefusedRequestError: It has none left.
        """
        if self.taken >= self._most.at_once or self._callers[name] >= self._most.per_caller:
            raise unavailable("relay_full", "the relay has reached its limit of requests", retry_after_s=1)
        with _counted(self._callers, name):
            yield

    @contextmanager
    def of_agent(self, agent: str) -> Iterator[None]:
        """Hold a place of an agent.

        Raises:
            RefusedRequestError: It has none left.
        """
        most = 1 if 2 * self.taken > self._most.at_once else self._most.per_agent
        if self._agents[agent] >= most:
            raise RefusedRequestError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "agent_busy",
                f"this agent has reached its limit of {counted(most, 'request')}",
                retry_after_s=1,
            )
        with _counted(self._agents, agent):
            yield

    @contextmanager
    def of_body(self, size: int) -> Iterator[None]:
        """Hold memory for a request's body.

        Raises:
            RefusedRequestError: There is none left.
        """
        if self._bodies + size > self._most.bodies_bytes:
            raise unavailable("relay_full", "the relay has reached its limit of request bodies", retry_after_s=1)
        self._bodies += size
        try:
            yield
        finally:
            self._bodies -= size


@contextmanager
def _counted(counter: Counter[str], key: str) -> Iterator[None]:
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


class Tally:
    """Counts requests by outcome, for Prometheus; outcomes are our own codes, never text that was sent."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, outcome: str) -> None:
        """Add one ended request to the counter of its outcome."""
        self._counts[outcome] += 1

    def text(self, under_way: int) -> bytes:
        """All counters, in Prometheus's text format."""
        lines = ["# TYPE hermesops_relay_requests_total counter"]
        lines += [
            f'hermesops_relay_requests_total{{outcome="{name}"}} {self._counts[name]}' for name in sorted(self._counts)
        ]
        lines += ["# TYPE hermesops_relay_requests_under_way gauge", f"hermesops_relay_requests_under_way {under_way}"]
        return ("\n".join(lines) + "\n").encode()
