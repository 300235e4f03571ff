"""The monitor's metrics about itself and instances, in Prometheus's text format.

What is pushed gets no mark when it ends, and Prometheus shows it for five minutes more. So a flag that was pushed as 1
and does not hold any more is pushed as 0 for a while; a figure that is not known any more is no longer pushed.
"""

import math
from collections.abc import Collection, Iterable, Mapping

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A name, and labels in order."""

ENDED_S = 360.0
"""Seconds for which an ended series is pushed as 0; longer than Prometheus shows the last sample of one."""

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def series(name: str, **labels: str) -> Series:
    """Build the key of a Prometheus series from its name and labels."""
    return name, tuple(labels.items())


class Exposition:
    """Makes the text of one push after the other.

    Args:
        flags: Names of series that are 1 while something holds.
    """

    def __init__(self, flags: Collection[str]) -> None:
        self._flags = frozenset(flags)
        self._before: set[Series] = set()
        self._ended: dict[Series, float] = {}

    def text(self, values: Mapping[Series, float], *, now_s: float) -> str:
        """The text of these values and of ended series; values that are no numbers are left out."""
        present = {key: value for key, value in values.items() if math.isfinite(value)}
        for gone in self._before.difference(present):
            self._ended[gone] = now_s
        self._before = {key for key in present if key[0] in self._flags}
        self._ended = {key: at for key, at in self._ended.items() if key not in present and now_s - at < ENDED_S}
        return "".join(_lines(present, self._ended))


def _lines(present: Mapping[Series, float], ended: Iterable[Series]) -> Iterable[str]:
    yield from (f"{_shown(key)} {value:.15g}\n" for key, value in present.items())
    yield from (f"{_shown(key)} 0\n" for key in ended)


def _shown(key: Series) -> str:
    name, labels = key
    pairs = ",".join(f'{key}="{value.translate(_ESCAPES)}"' for key, value in labels)
    return f"{name}{{{pairs}}}" if labels else name
