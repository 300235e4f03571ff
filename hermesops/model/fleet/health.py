"""Reports of gateways and of hermes-node, and the health of an instance derived from them."""

from dataclasses import dataclass
from enum import StrEnum

from hermesops.model.access.certificate import MachineNames
from hermesops.model.ids import InstanceId

HEARTBEAT_S = 30.0
"""Seconds between two heartbeats of a machine."""

SILENT_S = 3 * HEARTBEAT_S
"""Age of the last heartbeat beyond which three were missed."""


class GatewayHealth(StrEnum):
    """The gateway's answer.

    ``refused``: it rejects our key. ``silent``: no answer, or only one of the proxy.
    """

    OK = "ok"
    DEGRADED = "degraded"
    DRAINING = "draining"
    REFUSED = "refused"
    SILENT = "silent"


def gateway_health(text: str | None) -> GatewayHealth | None:
    """Parse a recorded health of a gateway; ``None`` for an empty or unknown value."""
    return GatewayHealth(text) if text in set(GatewayHealth) else None


@dataclass(frozen=True)
class NodeState:
    """hermes-node's report of its machine.

    Attributes:
        instance_id: Whose the machine is; ``None`` when nobody was personalised there.
        digest: Of the payload last personalised in full; empty when none was, or only in part.
        release: What ``current`` points at.
        switching: Whether it goes back from that by itself, as nobody has confirmed it yet.
        request: What the machine asks for a certificate with, empty before it has made its key; ``None`` where it knows
            of no certificates, or nobody gives any.
        names: What its certificate says; ``None`` while it has none that counts.
        takes_connector: Whether it understands a payload with a connector.
        takes_endpoint: Whether it understands one with a user's own model provider.
    """

    instance_id: InstanceId | None
    epoch: int
    digest: str
    release: str
    fenced: bool = False
    switching: bool = False
    request: str | None = None
    names: MachineNames | None = None
    takes_connector: bool = True
    takes_endpoint: bool = True


class Answer(StrEnum):
    """Whether something on a machine answered when it was asked by one way."""

    YES = "yes"
    """Also with an error: whatever answers runs."""
    SILENT = "silent"
    UNKNOWN = "unknown"
    """It could not be asked: JustAVPS, through which the way leads, did not answer."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers of one machine to probes by two ways: hermes-node by toolbox and the gateway by proxy.

    Attributes:
        machine: The vendor's status of it, ``model.fleet.GONE``, or empty where the vendor did not say.
    """

    machine: str
    toolbox: Answer = Answer.UNKNOWN
    proxy: Answer = Answer.UNKNOWN

    @property
    def is_alive(self) -> bool:
        """Whether the machine answered by at least one way."""
        return Answer.YES in {self.toolbox, self.proxy}

    @property
    def is_silent(self) -> bool:
        """Whether both ways were tried and nothing answered."""
        return self.toolbox is self.proxy is Answer.SILENT


class Condition(StrEnum):
    """Conditions of an instance that should run, the worst first."""

    DOWN = "down"
    """Its machine is not up, or its agent does not answer on a machine that does."""
    SILENT = "silent"
    """Nothing comes from its machine: three heartbeats are missing, or hermes-node does not answer."""
    DEGRADED = "degraded"
    UNKNOWN = "unknown"
    """No fact is recent enough."""
    HEALTHY = "healthy"


@dataclass(frozen=True, slots=True)
class Judgement:
    """A condition.

    Attributes:
        reasons: In plain words with figures, the decisive one first; never empty.
        since_s: Seconds for which it is known to be so: at least so long, where nothing older is recorded; ``None``
            where that is not known, and of a healthy one.
        runbook: Name of the runbook of this fault; empty where several could be meant.
    """

    condition: Condition
    reasons: tuple[str, ...]
    since_s: float | None = None
    runbook: str = ""
