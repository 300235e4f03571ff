"""Our plugin, which gives up after seconds and not after minutes.

Run ``python -m tests.support.vendor.impatient_plugin``.
"""

import sys

from hermesops.cli import provider
from hermesops.infra.provider.backoff import Timeouts


def main() -> int:
    """Be the plugin."""
    Timeouts.__init__.__defaults__ = (8, 8, 5, 5, 8)  # of a frozen dataclass, set once
    return provider.main() or 0


if __name__ == "__main__":
    sys.exit(main())
