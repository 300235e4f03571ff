"""Jobs about the fleet: ends of agents, tokens, warm pools, and releases that a rollout missed."""

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from hermesops.agents.cells.cost.bill import Cost
from hermesops.agents.instances.credentials.tokens import ModelTokens, ProxyTokens
from hermesops.agents.instances.requests.expiry import Due, Upkeep
from hermesops.agents.operator_requests.carrier import OperatorRequestCarrier
from hermesops.agents.pool.previews import PoolPreviews
from hermesops.agents.pool.service import Pools
from hermesops.agents.rollout.plan.backlog import requests_for
from hermesops.agents.rollout.plan.checks import updatable, usual_spec
from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.agents.rollout.service import Rollouts
from hermesops.automation.jobs.reports import left_to_workers, report_of, reported
from hermesops.automation.jobs.runner import Job, ManualRun, Report
from hermesops.base.narration import counted
from hermesops.errors import problem_of
from hermesops.model.ids import CellName
from hermesops.settings.fields import Settings
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.outcomes import Outcome, outcome_of, problems_in
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry

_MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class FleetJobs:
    """Declares the jobs about the fleet."""

    settings: Settings
    registry: Registry
    operations: Operations
    rollouts: Rollouts
    pools: Pools
    pool_previews: PoolPreviews
    upkeep: Upkeep
    proxy_tokens: ProxyTokens
    model_tokens: ModelTokens
    operator_requests: OperatorRequestCarrier

    def all(self) -> tuple[Job, ...]:
        """Every job about the fleet, in the order of ``job list``."""
        return (
            Job(
                "lifecycle",
                "end agents whose grace is over, give left machines back",
                10 * _MINUTE,
                self._ends,
                lambda: self._end(self.upkeep.due()),
                self._end_by_hand,
                longest=timedelta(hours=8),
            ),
            Job(
                "tokens",
                "renew the platform's proxy tokens, revoke those unused",
                _MINUTE,
                self._old_tokens,
                lambda: reported(self.proxy_tokens.renew_due(), "{} renewed", "token"),
            ),
            Job(
                "model-tokens",
                "hand agents a fresh token for the model router before theirs runs out",
                _MINUTE,
                lambda: [instance.title for instance in self.model_tokens.due()],
                lambda: reported(self.model_tokens.renew_due(), "a model token was handed to {}", "agent"),
            ),
            Job(
                "model-budgets",
                "tell model routers what agents may use in a month",
                10 * _MINUTE,
                lambda: [plan.value for plan in self.model_tokens.plans_due()],
                self._write_budgets,
            ),
            Job(
                "pools",
                "fill or shrink warm pools to their size",
                _MINUTE,
                self._short_pools,
                lambda: left_to_workers(self._open_fills(self._short_pools()), self.operations),
                self._fill_by_hand,
                subjects="cells",
                cost=self._pool_cost,
            ),
            Job(
                "outdated",
                "deploy releases to instances that a rollout missed or that came later",
                10 * _MINUTE,
                lambda: [instance.user for instance in updatable(self.registry)],
                self._deploy_outdated,
                rest=timedelta(hours=6),
            ),
            Job(
                "operator-requests",
                "verify and carry out what operators ask for in the served console",
                timedelta(seconds=1),
                self._due_requests,
                self._carry_requests,
                retry=timedelta(seconds=10),
            ),
        )

    def _due_requests(self) -> list[str]:
        return self.operator_requests.due()

    async def _carry_requests(self) -> Report:
        return Report(await self.operator_requests.run())

    def _ends(self) -> list[str]:
        due = self.upkeep.due()
        return [*(instance.title for instance in due.ends), *(row.name for row in due.leaves)]

    async def _end(self, due: Due) -> Report:
        return report_of(await self.upkeep.apply(due), "{} destroyed", "machine")

    def _end_by_hand(self, _: Sequence[str], __: str) -> ManualRun:
        due = self.upkeep.due()  # once: what falls due after the operator's consent waits for the next run
        ends = (
            f"{instance.title}: its days of grace are over; machine {instance.machine_name} is destroyed"
            for instance in due.ends
        )
        leaves = (f"{row.name}: unassigned; it will be destroyed" for row in due.leaves)
        destroys = (*ends, *leaves)
        return ManualRun(lambda: self._end(due), destroys, f"destroys {counted(len(destroys), 'machine')}")

    def _old_tokens(self) -> list[str]:
        due = self.proxy_tokens.due()
        return [*due.renew, *(f"{token.purpose} of {token.machine_id}" for token in due.drop)]

    async def _write_budgets(self) -> Report:
        await in_db_thread(self.model_tokens.write_budgets)
        return Report("model routers read the budgets within seconds")

    def _short_pools(self) -> list[CellName]:
        return self.pools.short()

    async def _pool_cost(self) -> Cost:
        return await self.pool_previews.fill()

    async def _open_fills(self, cells: Sequence[CellName]) -> Report:
        """Open the operations that fill pools. They take minutes, and other jobs shall not wait for that."""
        if not cells:
            return Report("no pool is to be filled: there is no cell, and the setting pool_size asks for none")
        outcomes = tuple([await outcome_of(cell, self._open_fill(cell)) for cell in cells])
        opened = [outcome.subject for outcome in outcomes if not outcome.problem]
        done = f"{counted(len(opened), 'pool')} left to be filled: {', '.join(opened)}"
        return Report(done, problems_in(outcomes), outcomes)

    async def _open_fill(self, cell: CellName) -> Outcome:
        return Outcome(cell, self.pools.open(cell))

    def _fill_by_hand(self, names: Sequence[str], _: str) -> ManualRun:
        """Of the named cells or of all, also where rows alone say that nothing is missing."""
        self.pools.cells(names, opening=False)  # refuses an unknown name; a preparation opens no cell

        def fill() -> Awaitable[Report]:
            return self._open_fills([cell.name for cell in self.pools.cells(names, opening=True)])

        return ManualRun(fill, is_whole=not names)

    async def _deploy_outdated(self) -> Report:
        problem_by_subject = {}
        spec = usual_spec(self.settings)
        for request in requests_for(updatable(self.registry), "outdated", spec):
            problem_by_subject[f"{request.release} to {request.where}"] = await problem_of(self._begin(request))
        return report_of(problem_by_subject, "{} left to the workers", "rollout")

    async def _begin(self, request: RolloutRequest) -> None:
        self.rollouts.leave(await self.rollouts.start(request))
