"""Who may have how much of the relay at the same time. Pure.

An agent that never ends its answers holds its own places and no other's; the fuller the relay, the fewer it has.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus

from hermesops.relay.refusal import NotRelayedError, unavailable


@dataclass(frozen=True)
class Most:
    """Limits.

    Attributes:
        at_once: Requests.
        per_caller: Of one service, so that no service alone fills the relay.
        per_agent: To one agent; one alone once more than half of ``at_once`` are under way.
        bodies_bytes: Of requests' bodies in memory.
    """

    at_once: int = 400
    per_caller: int = 300
    per_agent: int = 4
    bodies_bytes: int = 256 << 20


class Places:
    """Counts what is under way.

    Args:
        most: Limits.
    """

    def __init__(self, most: Most | None = None) -> None:
        self._most = most or Most()
        self._callers: Counter[str] = Counter()
        self._agents: Counter[str] = Counter()
        self._bodies = 0

    @property
    def taken(self) -> int:
        """Requests under way."""
        return self._callers.total()

    @contextmanager
    def of_caller(self, name: str) -> Iterator[None]:
        """Hold a place of a service.

        Raises:
            NotRelayedError: It has none left.
        """
        if self.taken >= self._most.at_once or self._callers[name] >= self._most.per_caller:
            raise unavailable("relay_full", "the relay carries as many requests as it can", retry_after_s=1)
        with _counted(self._callers, name):
            yield

    @contextmanager
    def of_agent(self, agent: str) -> Iterator[None]:
        """Hold a place of an agent.

        Raises:
            NotRelayedError: It has none left.
        """
        most = 1 if 2 * self.taken > self._most.at_once else self._most.per_agent
        if self._agents[agent] >= most:
            raise NotRelayedError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "agent_busy",
                f"{most} requests to this agent are under way",
                retry_after_s=1,
            )
        with _counted(self._agents, agent):
            yield

    @contextmanager
    def of_body(self, size: int) -> Iterator[None]:
        """Hold memory for a request's body.

        Raises:
            NotRelayedError: There is none left.
        """
        if self._bodies + size > self._most.bodies_bytes:
            raise unavailable("relay_full", "the relay holds as many bodies as it can", retry_after_s=1)
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
