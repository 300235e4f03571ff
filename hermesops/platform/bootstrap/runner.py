"""Drives a bootstrap to its end, or back: observes, decides, does one step, observes again.

It may be killed at any moment: the next run observes and goes on.
"""

from collections.abc import Callable
from dataclasses import dataclass

from hermesops.base.network.aws_client import call
from hermesops.base.waiting import Pending, WaitExpiredError, until
from hermesops.errors import HermesError, Hint, PartlyDoneError, RefusedError, UnavailableError, UsageError
from hermesops.platform.bootstrap.account import Account
from hermesops.platform.bootstrap.decide import (
    AccountState,
    Step,
    kept,
    obstacles,
    plan,
    undo_obstacles,
    undo_plan,
)
from hermesops.platform.bootstrap.spec import BootstrapSpec, check

_WHOM = "AWS"
_OBSERVE_S = 120.0
"""Seconds for one observation: some forty requests, and three more for each key of the account."""

_SHOWN_S = 60.0
"""Seconds until AWS shows what was done: IAM and KMS copy changes to their readers later."""

_COMMAND = ("platform", "bootstrap")


@dataclass(frozen=True)
class Preview:
    """Steps of a bootstrap, or of its undo.

    Attributes:
        caller: ARN of who asks.
        notes: What stays as it is and should be known.
    """

    caller: str
    steps: tuple[Step, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bootstrap:
    """One bootstrap.

    Attributes:
        report: Takes narration.
    """

    spec: BootstrapSpec
    aws: Account
    report: Callable[[str], None]
    undo: bool = False

    async def preview(self) -> Preview:
        """Compare the account with the specification. Changes nothing.

        Raises:
            UsageError: A setting is wrong, or the credentials are another account's.
            RefusedError: Something there belongs to another user, or is in use.
            UnavailableError: AWS does not answer.
        """
        check(self.spec)
        account, caller = await call(self.aws.caller, whom=_WHOM)
        if account != self.spec.account:
            raise UsageError(
                f"the credentials are those of account {account}, not of {self.spec.account}: {caller}",
                hint="choose others by AWS_PROFILE, or correct platform.account",
            )
        state = await self._observe()
        against = undo_obstacles(self.spec, state) if self.undo else obstacles(self.spec, state)
        if against:
            raise RefusedError(f"nothing was touched: {'; '.join(against)}", hint="decide what it is for, or move it")
        return Preview(caller, self._plan(state), self._notes(state))

    async def run(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        """Do what a preview showed; returns what was done.

        Raises:
            PartlyDoneError: A step failed after others; the message names it and what is left.
            RefusedError: AWS refuses the first step, or the account has changed since the preview.
            UnavailableError: AWS does not answer; the same command goes on.
        """
        done: list[Step] = []
        state = await self._observe()
        while todo := self._plan(state):
            step = todo[0]
            try:
                if step not in steps:
                    raise RefusedError(
                        f"{step.thing} has changed since the preview: {step.action.value}", hint=Hint(_COMMAND, "again")
                    )
                self.report(f"{step.thing}: {step.action.value}")
                await call(self.aws.do, self.spec, step, state, whom=_WHOM)
                state = await self._shown(step)
            except HermesError as error:
                if not done:
                    raise
                raise _stopped(done, todo, error) from error
            done.append(step)
        return tuple(done)

    async def _shown(self, step: Step) -> AccountState:
        """Wait until AWS shows that the step was done, and return the state."""

        async def check_shown() -> AccountState | Pending[AccountState]:
            state = await self._observe()
            return Pending("AWS does not show it yet") if step in self._plan(state) else state

        try:
            return await until(check_shown, what=step.action.value, timeout_s=_SHOWN_S, every_s=1.0, report=self.report)
        except WaitExpiredError as error:
            raise UnavailableError(
                f"{step.thing}: {step.action.value}: AWS took it, and does not show it", hint=Hint(_COMMAND, "again")
            ) from error

    async def _observe(self) -> AccountState:
        return await call(self.aws.observe, self.spec, within_s=_OBSERVE_S, whom=_WHOM)

    def _plan(self, state: AccountState) -> tuple[Step, ...]:
        return undo_plan(self.spec, state) if self.undo else plan(self.spec, state)

    def _notes(self, state: AccountState) -> tuple[str, ...]:
        others = state.key.others if state.key else ()
        spare = tuple(f"key {key} has the same tags and is not used: delete it by hand" for key in others)
        return (*spare, *(kept(self.spec, state) if self.undo else ()))


def _stopped(done: list[Step], todo: tuple[Step, ...], error: HermesError) -> PartlyDoneError:
    left = "; ".join(f"{step.thing}: {step.action.value}" for step in todo)
    return PartlyDoneError(
        f"{len(done)} of {len(done) + len(todo)} steps are done, then: {error.message}. Left: {left}",
        hint=Hint(_COMMAND, "looks again and goes on"),
    )
