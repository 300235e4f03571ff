"""The composition root: settings in, objects out. The wiring diagram of hermesops; it decides nothing.

Each part is made when it is first asked for, and imports only what it needs.
"""

from hermesops.app.app import App
from hermesops.app.endpoint import endpoint_of
from hermesops.app.programs import fleet_program
from hermesops.app.session import Session

__all__ = ["App", "Session", "endpoint_of", "fleet_program"]
