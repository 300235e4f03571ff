"""Releases of agents that only simulated machines can run: locked, signed and stored as all are, without wheels."""

from dataclasses import dataclass
from pathlib import Path

from hermesops.errors import Hint, UsageError
from hermesops.machines.capabilities.lines import LINES, line_of
from hermesops.machines.release.blobs import BlobStore
from hermesops.machines.release.builder.build import SKILLS, Builder, BuildRequest
from hermesops.machines.release.builder.parts import Agent
from hermesops.wire.documents.lock import Lock

_CONFIG_SCHEMA = 33
_NOTHING = b"simulated\n"


@dataclass(frozen=True)
class SimulatedBuilder(Builder):
    """Builds releases for simulated machines, which run no wheels."""

    def _lock(self, order: BuildRequest, scratch: Path) -> Lock:
        del scratch
        if not order.agent:
            raise UsageError("a simulated machine runs no wheel", hint=Hint(("release", "build", "--agent", "VERSION")))
        self.report("a simulated world: the release has no wheels")
        blob_store, agent = BlobStore(self.releases.store), Agent(order.agent, schema_of(order.agent), notifies=True)
        return self._written(
            blob_store,
            agent,
            "simulated",
            {},
            order.managed,
            uv=_NOTHING,
            skills=blob_store.keep(SKILLS, _NOTHING),
            program=_NOTHING,
        )


def schema_of(version: str) -> int:
    """The configuration schema that a simulated agent writes: that of its line, as real ones do; else of 0.19."""
    try:
        line = LINES.get(line_of(version))
    except ValueError:
        line = None
    return line.config_schema if line else _CONFIG_SCHEMA
