"""The health that a gateway reports."""

from enum import StrEnum


class GatewayHealth(StrEnum):
    """The gateway's answer.

    ``refused``: it rejects our key. ``silent``: no answer, or only one of the proxy.
    """

    OK = "ok"
    DEGRADED = "degraded"
    DRAINING = "draining"
    REFUSED = "refused"
    SILENT = "silent"
