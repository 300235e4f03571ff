"""One run of a job that an operator asked for, as the workflow of an operation."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hermesops.automation.jobs.reports import failure
from hermesops.automation.jobs.runner import Report
from hermesops.errors import RefusedError
from hermesops.model.operation import Done, Refused


def run_subject(name: str) -> str:
    """Subject of the operation of a run; each turn of the job has a lease of its own."""
    return f"job-run/{name}"


@dataclass(frozen=True)
class Turn:
    """Step: do a turn of the job."""


@dataclass
class AskedRun:
    """Workflow of one run; where the process died, the job is done anew for all that is due then.

    Attributes:
        run: Does a turn, and brings the operations that it opened to their end.
    """

    name: str
    run: Callable[[], Awaitable[Report]]
    report: Report | None = field(default=None, init=False)

    async def observe(self) -> Report | None:
        """The result of the turn; ``None`` before it."""
        return self.report

    def decide(self, observation: Report | None) -> Turn | Done | Refused:
        """Do a turn, then end: with its result, or as failed where a part was not done."""
        if observation is None:
            return Turn()
        if problem := failure(self.name, observation):
            return Refused(RefusedError(problem.message, hint=problem.hint))
        return Done(observation.done or "nothing was due")

    def describe(self, step: Turn, observation: Report | None) -> str:  # noqa: ARG002 - the loop's signature
        """Describe the step in one line."""
        return f"running job {self.name}"

    async def do(self, step: Turn, observation: Report | None) -> None:  # noqa: ARG002 - as above
        """Do the turn, and keep its result."""
        self.report = await self.run()
