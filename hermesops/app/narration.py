"""How what happens is told."""

from collections.abc import Callable

Tell = Callable[[str], None]
"""Takes a line of narration."""
