"""Monitoring profile of an image's machines, and the source of their Loki."""

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
    """Variables of role hermes_monitoring.

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
        """Name of the profile, as the role spells it."""
        return "full" if self.is_full else "lean"

    @property
    def inputs(self) -> dict[str, object]:
        """Inputs of the image's digest; independent of the computer that builds it."""
        return {
            "hermes_monitoring_profile": self.profile,
            "hermes_monitoring_loki": [package["sha256"] for package in self.loki],
            **self._interval,
        }

    @property
    def variables(self) -> dict[str, object]:
        """Variables of role hermes_monitoring, with paths of this computer."""
        sources = {"hermes_monitoring_profile": self.profile, "hermes_monitoring_loki_sources": list(self.loki)}
        return {**sources, **self._interval}

    @property
    def _interval(self) -> dict[str, object]:
        """Variables that shorten the interval; empty for the default, so that image digests stay the same."""
        if self.every_s == EVERY_S:
            return {}
        return {"hermes_node_metrics_seconds": self.every_s, "hermes_monitoring_scrape_seconds": self.every_s}

    @property
    def note(self) -> str:
        """Narration for the operator who builds an image; empty for profile ``full``."""
        return "" if self.is_full else "monitoring profile: lean (metrics and logs are forwarded, not stored)"


def machine_monitoring(
    profile: Literal["auto", "lean", "full"], sources: str, built: Path, *, time_scale: float = 1.0
) -> MachineMonitoring:
    """Resolve the profile that the settings ask for; ``auto`` is ``full`` when a Loki is available.

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
            is_full=True, loki=[_pinned(source.strip()) for source in sources.split(",")], every_s=every_s
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
