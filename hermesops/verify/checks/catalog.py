"""Everything that is promised of an instance, its machine's part first."""

from hermesops.verify.checks.agent import AGENT_PROMISES
from hermesops.verify.checks.data import DATA_PROMISES
from hermesops.verify.checks.machine import MACHINE_PROMISES

WITHOUT_USER = (*MACHINE_PROMISES, *DATA_PROMISES)
"""What holds on a machine that belongs to nobody yet, as one from a new image."""

PROMISES = (*WITHOUT_USER, *AGENT_PROMISES)

QUICK = tuple(promise for promise in PROMISES if not promise.slow)
"""Without the turn that asks the model."""
