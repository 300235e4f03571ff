"""The agent's releases, by what hermesops relies on in each."""

from hermesops.machines.capabilities.lines import Capabilities, capabilities_of, refuse_unknown

__all__ = ["Capabilities", "capabilities_of", "refuse_unknown"]
