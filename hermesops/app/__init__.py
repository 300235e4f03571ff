"""The wiring: the container builds the parts, services are what commands call, handlers do operations."""

from hermesops.app.container import Container
from hermesops.app.container_parts.endpoint import endpoint_of
from hermesops.app.container_parts.runtime import Runtime

__all__ = ["Container", "Runtime", "endpoint_of"]
