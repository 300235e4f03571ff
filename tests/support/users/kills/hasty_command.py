"""A command of hermesops in whose process a dead carrier's turns are free soon, so that a short test sees them go on.

Run ``python -m tests.support.users.kills.hasty_command SECONDS ARGUMENTS…``: a carrier's lease lives so many seconds.
"""

import sys


def main() -> int:
    """Be hermesops."""
    from datetime import timedelta  # noqa: PLC0415 - a fork has loaded it

    from hermesops.cli.main import main as command  # noqa: PLC0415 - as above
    from hermesops.users.chat import carrier, service  # noqa: PLC0415 - as above

    lease_s = float(sys.argv[1])
    carrier.LEASE = timedelta(seconds=lease_s)
    carrier._RENEW_S = carrier._STALLED_S = service._SWEEP_S = lease_s / 4
    sys.argv = ["hermesops", *sys.argv[2:]]
    return command()


if __name__ == "__main__":
    sys.exit(main())
