"""Runs a Pulumi program against a stack: through the pulumi CLI, or embedded if there is no CLI.

It knows nothing of machines, users or the vendor; the provider plugin knows what it manages.
"""

from hermesops.infra.engine.choose import make_engine
from hermesops.infra.engine.options import EngineConfig

__all__ = ["EngineConfig", "make_engine"]
