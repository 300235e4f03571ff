"""``hermesops doctor``: checks of this computer and of the environment."""

from hermesops.cli import context
from hermesops.cli.views import environment


def doctor() -> int:
    """Check programs, rights, disk space, keys, registry and the vendor's API; name the repair of each."""
    return environment.report_checks("doctor", context.run(context.compose().checks.doctor()), empty="no checks")
