"""The wiring: the container builds the parts, services are what commands call, handlers do operations."""

from hermesops.app.container import Container
from hermesops.app.container_parts.endpoint import endpoint_of
from hermesops.app.container_parts.session import Session

__all__ = ["Container", "Session", "endpoint_of"]
