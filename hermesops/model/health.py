"""What a gateway says of itself."""

from enum import StrEnum


class GatewayHealth(StrEnum):
    """What the gateway answered.

    ``refused``: it does not know the key we hold. ``silent``: nothing came back, or only from the proxy.
    """

    OK = "ok"
    DEGRADED = "degraded"
    DRAINING = "draining"
    REFUSED = "refused"
    SILENT = "silent"
