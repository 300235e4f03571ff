"""Runs a Pulumi program against a stack: through the pulumi CLI, or embedded if there is no CLI.

It must not know machines, users or the vendor: resources are the provider plugin's.
"""

from hermesops.infra.engine.choose import make_engine
from hermesops.infra.engine.options import EngineConfig

__all__ = ["EngineConfig", "make_engine"]
