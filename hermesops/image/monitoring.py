"""Which profile of monitoring an image's machines have, and where their Loki comes from."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hermesops.errors import RefusedError

_MARK = "#sha256="


@dataclass(frozen=True)
class MachineMonitoring:
    """What role hermes_monitoring is told.

    Attributes:
        is_full: Whether machines keep metrics and logs, or only send them.
        loki: Sources of Loki, as the role takes them: ``url`` or ``path``, and ``sha256``.
    """

    is_full: bool
    loki: Sequence[Mapping[str, str]] = ()

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
        }

    @property
    def variables(self) -> dict[str, object]:
        """Variables of the role."""
        return {"hermes_monitoring_profile": self.profile, "hermes_monitoring_loki_sources": list(self.loki)}

    @property
    def note(self) -> str:
        """What whoever builds an image is told of it; empty where it is as they would expect."""
        return "" if self.is_full else "machines send metrics and logs on and keep none (profile lean of monitoring)"


def machine_monitoring(profile: Literal["auto", "lean", "full"], sources: str, built: Path) -> MachineMonitoring:
    """What the settings ask for, as far as there is a Loki.

    Args:
        sources: Pinned URLs, as setting ``monitoring.loki`` spells them; empty for none.
        built: Where Loki is that was built on this computer; it need not be there.

    Raises:
        RefusedError: ``full`` is asked for, and there is no Loki.
    """
    if profile == "lean":
        return MachineMonitoring(is_full=False)
    if sources:
        return MachineMonitoring(is_full=True, loki=[_pinned(one.strip()) for one in sources.split(",")])
    if built.exists():
        return MachineMonitoring(is_full=True, loki=[{"path": str(built), "sha256": _sha256(built)}])
    if profile == "full":
        raise RefusedError(
            "profile full of monitoring.profile needs Loki, and there is none",
            hint="name a source of it in monitoring.loki",
        )
    return MachineMonitoring(is_full=False)


def _pinned(source: str) -> dict[str, str]:
    url, _, sha256 = source.partition(_MARK)
    return {"url": url, "sha256": sha256}


def _sha256(program: Path) -> str:
    with program.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
