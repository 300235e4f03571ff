"""Runs a Pulumi program against a stack: through the pulumi CLI, or by itself where there is none.

It knows nothing of machines, users or the vendor; what it manages is the provider plugin's business.
"""

from hermesops.engine.choose import make_engine

__all__ = ["make_engine"]
