"""The composition root: settings in, objects out.

The container builds the parts, services are what commands call, and handlers build the workflow of each operation.
"""

from hermesops.app.container import Container
from hermesops.app.container_parts.endpoint import endpoint_of

__all__ = ["Container", "endpoint_of"]
