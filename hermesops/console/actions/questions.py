"""The question of a page of the served console, as a worker asks it; and its answer as the text of a row."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermesops import __version__
from hermesops.agents.operator_requests.actions import BegunAction
from hermesops.console.actions.action import bounded, offer_served
from hermesops.console.actions.form import form_of_row
from hermesops.console.topics.questions import OF_OPERATORS, Question
from hermesops.errors import Hint, RefusedError, UnavailableError, UsageError
from hermesops.model.access.console_operator import ConsoleOperator, Role
from hermesops.model.access.operator_request import hint_of, parts_of

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.model.access.operator_request import OperatorRequest

ABOUT = "questions"
"""Kind of the subject in rows; the action is the name of the question."""

_LONGEST = 1_000_000
"""Characters of an answer in a row."""

_HINT = "$hint"
"""Key of a hint in JSON, which has commands as lists of words."""


@dataclass(frozen=True)
class QuestionAction:
    """The question of a request; it changes nothing."""

    connected: "Connected"
    question: Question
    request: "OperatorRequest"

    needs_recent_sign_in = False

    @property
    def role(self) -> Role:
        """The role of those who may ask."""
        return self.question.role or Role.ADMIN

    async def preview(self) -> str:
        """The answer as JSON.

        Raises:
            HermesError: Nobody answers, a filter cannot be read, or the answer is too long for a row.
        """
        filters = form_of_row(self.request.form)
        if unknown := filters.keys() - {*self.question.filters}:
            raise UsageError(f"this page has no filter {min(unknown)!r}")
        filters = {name: bounded(text, name) for name, text in filters.items()}
        shape = await self.question.ask(self.connected.container, filters, offer_served)
        text = json.dumps({"shape": shape, "version": __version__}, default=_plain)
        if len(text) > _LONGEST:
            raise RefusedError("the answer is too long for a page", hint=Hint(self.question.command(filters)))
        return text

    async def find_begun(self, reason: str) -> None:
        """Nothing: a question begins nothing."""

    async def begin(self, operator: ConsoleOperator, reason: str) -> BegunAction:
        """A question begins nothing.

        Raises:
            RefusedError: Always.
        """
        del operator, reason
        raise RefusedError("a question changes nothing")


def question_of(connected: "Connected", request: "OperatorRequest") -> QuestionAction | None:
    """The question of a request; ``None`` for one that the served console does not have."""
    question = OF_OPERATORS.get(request.action)
    return QuestionAction(connected, question, request) if question is not None else None


def answer_of(text: str) -> Mapping[str, Any]:
    """The answer in a row.

    Raises:
        UnavailableError: It is of another hermesops, whose shapes may differ.
    """
    content: Any = json.loads(text, object_hook=_with_hint)
    if content.get("version") != __version__:
        raise UnavailableError("this answer is of another hermesops; load the page again")
    shape: Mapping[str, Any] = content["shape"]
    return shape


def _plain(value: object) -> object:
    return {_HINT: parts_of(value)} if isinstance(value, Hint) else str(value)


def _with_hint(pairs: dict[str, Any]) -> object:
    return hint_of(pairs[_HINT]) if pairs.keys() == {_HINT} else pairs
