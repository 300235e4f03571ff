"""The composition root: settings in, objects out. The wiring diagram of hermesops; it decides nothing.

Each part is made when it is first asked for, and imports only what it needs.
"""

from hermesops.app.container import Container
from hermesops.app.container_parts.connected import Connected
from hermesops.app.container_parts.endpoint import endpoint_of
from hermesops.app.container_parts.programs import fleet_program

__all__ = ["Connected", "Container", "endpoint_of", "fleet_program"]
