"""Which profile of monitoring an image's machines have, and where their Loki comes from."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermesops.errors import RefusedError

EVERY_S = 15
"""Default of roles hermes_node and hermes_monitoring."""

_MARK = "#sha256="


@dataclass(frozen=True)
class MachineMonitoring:
    """What role hermes_monitoring is told.

    Attributes:
        is_full: Whether machines keep metrics and logs, or only send them.
        loki: Sources of Loki, as the role takes them: ``url`` or ``path``, and ``sha256``.
        every_s: Seconds from one writing, and one reading, of the metrics to the next.
    """

    is_full: bool
    loki: Sequence[Mapping[str, str]] = ()
    every_s: int = EVERY_S

    @property
    def profile(self) -> str:
        """The role's name for it."""
        return "full" if self.is_full else "lean"

    @property
    def inputs(self) -> dict[str, object]:
        """What of it decides what an image is, wherever it is built."""
        return {
            "hermes_monitoring_profile": self.profile,
            "hermes_monitoring_loki": [one["sha256"] for one in self.loki],
            **self._interval,
        }

    @property
    def variables(self) -> dict[str, object]:
        """Variables of the role."""
        sources = {"hermes_monitoring_profile": self.profile, "hermes_monitoring_loki_sources": list(self.loki)}
        return {**sources, **self._interval}

    @property
    def _interval(self) -> dict[str, object]:
        """The variables that shorten it; none where it is the default, so that images stay what they are."""
        if self.every_s == EVERY_S:
            return {}
        return {"hermes_node_metrics_seconds": self.every_s, "hermes_monitoring_scrape_seconds": self.every_s}

    @property
    def note(self) -> str:
        """What whoever builds an image is told of it; empty where it is as they would expect."""
        return "" if self.is_full else "machines send metrics and logs on and keep none (profile lean of monitoring)"


def machine_monitoring(
    profile: Literal["auto", "lean", "full"], sources: str, built: Path, *, time_scale: float = 1.0
) -> MachineMonitoring:
    """What the settings ask for, as far as there is a Loki.

    Args:
        sources: Pinned URLs, as setting ``monitoring.loki`` spells them; empty for none.
        built: Where Loki is that was built on this computer; it need not be there.
        time_scale: Alerts wait so much shorter: machines tell so much oftener, or each would look silent between two
            heartbeats. They never tell less often.

    Raises:
        RefusedError: ``full`` is asked for, and there is no Loki.
    """
    every_s = max(1, min(EVERY_S, round(EVERY_S * time_scale)))
    if profile == "lean":
        return MachineMonitoring(is_full=False, every_s=every_s)
    if sources:
        return MachineMonitoring(
            is_full=True, loki=[_pinned(one.strip()) for one in sources.split(",")], every_s=every_s
        )
    if built.exists():
        return MachineMonitoring(is_full=True, loki=[{"path": str(built), "sha256": _sha256(built)}], every_s=every_s)
    if profile == "full":
        raise RefusedError(
            "profile full of monitoring.profile needs Loki, and there is none",
            hint="name a source of it in monitoring.loki",
        )
    return MachineMonitoring(is_full=False, every_s=every_s)


def _pinned(source: str) -> dict[str, str]:
    url, _, sha256 = source.partition(_MARK)
    return {"url": url, "sha256": sha256}


def _sha256(program: Path) -> str:
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
