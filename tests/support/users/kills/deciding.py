"""A user who is asked for approval: decides at once, late, or never, and may not reach the agent in time."""

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hermesops.base.waiting import pause
from tests.support.users.api import Event
from tests.support.users.kills.asking import AwayError, RefusedError

_SOON_S = 4.0
_LATE_S = (40.0, 56.0)
"""Around the 55 s for which the API takes an answer."""

_ANSWERS = ("once", "session", "deny")


@dataclass
class Decision:
    """A user's decision about one request for approval.

    Attributes:
        command: What is to be approved.
        choice: Empty where the user never answers.
        after_s: Seconds from the request to its answer.
        is_sent: Whether the answer was sent at all; whoever sends it may not know that it was taken.
        is_taken: Whether the API said that the agent has it.
        refusal: The API's, of an answer that the agent has not.
        resolved: The choice that the page was shown, or ``expired``; empty for none.
    """

    command: str
    choice: str
    after_s: float
    is_sent: bool = False
    is_taken: bool = False
    refusal: str = ""
    resolved: str = ""

    async def answer(self, approve: Callable[[], Awaitable[bool]]) -> None:
        """Wait, and answer until somebody takes it or refuses it.

        Args:
            approve: Sends the answer by whichever stream is open; raises as ``Stream.approve``.
        """
        await pause(self.after_s)
        while self.choice and not self.resolved:
            try:
                self.is_sent = True
                self.is_taken = await approve()
            except AwayError:
                await pause(0.3)
            except RefusedError as refused:
                self.refusal = refused.code
                return
            else:
                return


@dataclass
class Decisions:
    """What a user is asked about one message, by the numbers of the requests."""

    chance: random.Random
    slow_share: float
    by_number: dict[str, Decision] = field(default_factory=dict)

    def take(self, event: Event) -> Decision | None:
        """Take an event about approvals; the decision that it asks for, unless that was asked for before."""
        number = str(event.data["id"])
        if event.kind == "resolved":
            if number in self.by_number:
                self.by_number[number].resolved = str(event.data["choice"])
            return None
        if number in self.by_number:
            return None
        is_slow = self.chance.random() < self.slow_share
        after_s = self.chance.uniform(*_LATE_S) if is_slow else self.chance.uniform(0, _SOON_S)
        choice = "" if is_slow and self.chance.random() < 0.3 else self.chance.choice(_ANSWERS)
        decision = Decision(str(event.data["command"]), choice, after_s)
        self.by_number[number] = decision
        return decision
