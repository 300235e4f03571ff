"""The composition root: settings in, objects out.

The container builds the parts, services are what commands call, and handlers build the workflow of each operation.
"""

from hermesops.access.secrets.environment import endpoint_of
from hermesops.app.container import Container

__all__ = ["Container", "endpoint_of"]
