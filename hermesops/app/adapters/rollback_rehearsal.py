"""Composes the drill of a rollout: to a release and back on a machine of a warm pool, which is then destroyed."""

from typing import TYPE_CHECKING

from hermesops.errors import RefusedError
from hermesops.instances.remote.releases import ReleaseClient
from hermesops.instances.upgrade_rehearsal import NoRollbackError, walk
from hermesops.model.ids import MachineId
from hermesops.model.operation import LeaseHeldError, LeaseLostError
from hermesops.model.plan import Plan
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import GateResult
from hermesops.model.spare import spare_subject
from hermesops.operations.db_thread import in_db_thread
from hermesops.release.releases import HandedOut

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.model.spare import Spare
    from hermesops.operations.lease import LeaseKeeper


class UpgradeRehearsal:
    """Drills of one session."""

    def __init__(self, session: "Connected", why: str) -> None:
        self._session = session
        self._app = session.app
        self._why = why

    async def run(self, release: ReleaseId, before: ReleaseId) -> tuple[GateResult, str]:
        """Walk the way on the first machine that can be had.

        Killed in the middle, it leaves a machine that is in no pool any more; the job ``lifecycle`` gives it back.

        Raises:
            HermesError: The machine could not be asked, so nothing is known.
        """
        for spare in (one for plan in Plan for one in self._session.pools.ready(plan)):
            try:
                async with self._app.hold_lease(spare_subject(spare.name)) as keeper:
                    if await self._session.pools.is_up(spare) and await self._lent(spare, keeper):
                        return await self._on(spare, keeper, release, before)
            except LeaseHeldError:
                continue
        return GateResult.NOT_EXERCISED, f"no machine of a pool was free to go from {before} to {release} and back"

    async def _lent(self, spare: "Spare", keeper: "LeaseKeeper") -> bool:
        return await in_db_thread(
            self._app.registry.assignments.lend, spare.name, None, lease=keeper.lease, why=self._why
        )

    async def _on(
        self, spare: "Spare", keeper: "LeaseKeeper", release: ReleaseId, before: ReleaseId
    ) -> tuple[GateResult, str]:
        slots, reach = ReleaseClient(self._session.instance_client.channel, keeper.lease), self._session.instance_client
        new, old = (HandedOut(each, self._app.releases) for each in (release, before))
        try:
            seen = await keeper.guard(walk(slots, reach, MachineId(spare.machine_id or ""), new, before=old))
        except LeaseLostError:
            raise
        except NoRollbackError as failed:
            return GateResult.FAIL, failed.message
        except RefusedError as refused:  # as where the release before came with an image and is in no store
            return GateResult.NOT_EXERCISED, refused.message
        finally:
            await in_db_thread(self._app.registry.spares.retire, spare.name, why=self._why)
            self._session.operations.leave(self._session.pools.open(spare.cell))
        return GateResult.PASS, seen
