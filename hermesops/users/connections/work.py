"""The work of the job ``connections``: accounts, records, and agents' settings, in this order."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.users.connections.agent_access import AgentAccess
from hermesops.users.connections.records import ConnectionRecording
from hermesops.users.connections.upkeep import ConnectionUpkeep


@dataclass(frozen=True)
class ConnectionWork:
    """All that connections need beside their users."""

    upkeep: ConnectionUpkeep
    recording: ConnectionRecording
    access: AgentAccess

    def due(self) -> list[str]:
        """What there is to do, a few words each."""
        return [*self.upkeep.due(), *self.recording.due(), *(f"agent {agent}" for agent in self.access.due())]

    async def run(self) -> Mapping[str, str]:
        """Do it; the problem of each thing, empty for none."""
        return {**await self.upkeep.run(), **await self.recording.run(), **await self.access.run()}
