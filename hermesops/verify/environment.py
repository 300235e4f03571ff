"""Whether an environment's own things are in order: its registry opens, and the vendor answers to its key."""

from collections.abc import Awaitable, Callable

from hermesops.errors import HermesError, UnavailableError
from hermesops.model.check import Check, Verdict


async def check_environment(registry: Callable[[], str], vendor: Callable[[], Awaitable[str]]) -> list[Check]:
    """Check registry and vendor.

    Args:
        registry: Opens the registry and says in a few words what is in it.
        vendor: Asks the vendor something harmless and says what it answered.
    """
    found = []
    try:
        found.append(Check("registry", Verdict.OK, registry()))
    except HermesError as error:
        found.append(_not_ok("registry", error))
    try:
        found.append(Check("vendor", Verdict.OK, await vendor()))
    except HermesError as error:
        found.append(_not_ok("vendor", error))
    return found


def _not_ok(name: str, error: HermesError) -> Check:
    # Silence is neither good nor bad: a local world may be down on purpose.
    verdict = Verdict.UNKNOWN if isinstance(error, UnavailableError) else Verdict.FAILED
    return Check(name, verdict, error.message, error.hint)
