"""What a world's machines are made of: the base they boot from, or nothing, where they are simulated."""

from pathlib import Path

from hermesops.localcloud.world.layout import Places

SIMULATED = "simulated"
"""Stands where the name of a base would, in a world of simulated machines."""


def base_of(folder: Path) -> str:
    """What a world stands on; empty when it has never been up."""
    try:
        return Places(folder).base.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""


def is_simulated(folder: Path, driver: str = "") -> bool:
    """Whether a world's machines are simulated; of one that was never up, whether they would be.

    Args:
        folder: The world's.
        driver: The driver that is set for it; empty for none.
    """
    return (base_of(folder) or (SIMULATED if driver == "sim" else "")) == SIMULATED
