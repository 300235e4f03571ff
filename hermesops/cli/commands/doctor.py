"""``hermesops doctor``: what this computer and this environment lack."""

from hermesops.cli import context
from hermesops.cli.views import environment


def doctor() -> int:
    """Check programs, rights, disk space, keys, registry and the vendor's API; name what repairs each."""
    return environment.report_checks("doctor", context.run(context.compose().checks.doctor()), empty="no checks")
