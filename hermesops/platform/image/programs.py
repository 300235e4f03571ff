"""Content of image ``hermes-platform`` beside the distribution's packages."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hermesops.machines.image.bundles.control import ControlBundle


@dataclass(frozen=True)
class PlatformPrograms:
    """Files on this computer that the platform's roles install from.

    Attributes:
        loki: ``None`` where it could not be made.
        ingest: hermes-ingest; ``router``: hermes-router.
        router_wheels: Archive that LiteLLM is installed from.
        control: Archive that hermesops is installed from.
    """

    object_store: Path
    loki: Path | None
    ingest: Path
    router: Path
    router_wheels: Path
    control: ControlBundle

    @property
    def variables(self) -> Mapping[str, object]:
        """Variables of the install halves of the roles; the same as ``up`` tells them."""
        return {
            "hermes_platform_object_store_program": str(self.object_store),
            "hermes_platform_monitoring_ingest": str(self.ingest),
            "hermes_platform_monitoring_loki": str(self.loki or ""),
            "hermes_platform_llm_router_program": str(self.router),
            "hermes_platform_llm_router_wheels": str(self.router_wheels),
            "hermes_platform_control_bundle": str(self.control.file),
            "hermes_platform_control_version": self.control.version,
        }

    @property
    def inputs(self) -> Mapping[str, object]:
        """Content versions of archives, the same on every computer; LiteLLM's lock is a file of its role."""
        return {"hermes_platform_control_version": self.control.version}

    @property
    def files(self) -> Mapping[str, Path]:
        """Programs that end up in the image as they are, by name."""
        programs = {"versitygw": self.object_store, "hermes-ingest": self.ingest, "hermes-router": self.router}
        return programs | ({"loki": self.loki} if self.loki else {})
