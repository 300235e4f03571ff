"""The wiring: the container builds the parts, services are what commands call, handlers do operations."""

from hermesops.app.container import Container
from hermesops.app.container_parts.connected import Connected
from hermesops.app.container_parts.endpoint import endpoint_of

__all__ = ["Connected", "Container", "endpoint_of"]
