"""The outcomes of work for several subjects: an only one fails as itself, several are partly done."""

from hermesops.errors import HermesError, PartlyDoneError, RefusedError, UnavailableError
from hermesops.model.operation import Operation
from hermesops.store.operations.outcomes import Outcome, end_each, failed, failure_of, outcome_of, outcomes_of
from tests.support.fakes.parts import part

AWAY = UnavailableError("away")


def test_the_error_of_an_only_subject_is_its_own() -> None:
    assert failure_of([failed("cell1", AWAY)], "pool drain") is AWAY


def test_several_are_partly_done_and_named() -> None:
    error = failure_of([failed("cell1", AWAY), Outcome("cell2", done="is empty")], "pool drain", hint="again")
    assert type(error) is PartlyDoneError
    assert (error.message, str(error.hint)) == ("pool drain: 1 of 2 not done: cell1: away", "again")


def test_work_whose_error_is_not_known_is_partly_done() -> None:
    assert type(failure_of(outcomes_of({"ada": "no answer"}), "job backups")) is PartlyDoneError


def test_all_done_is_no_failure() -> None:
    assert failure_of(outcomes_of({"ada": "", "bob": ""}), "job backups") is None
    assert failure_of((), "job backups") is None


async def test_an_error_is_an_outcome() -> None:
    async def refused() -> Outcome:
        raise RefusedError("no")

    outcome = await outcome_of("cell1", refused())
    assert (outcome.subject, outcome.done, outcome.problem) == ("cell1", "", "no")
    assert isinstance(outcome.error, RefusedError)


async def test_what_was_opened_is_ended_and_what_was_not_keeps_its_problem() -> None:
    ended = list[str]()

    async def end(operation: Operation) -> str:
        ended.append(operation.id)
        if len(ended) == 1:
            raise HermesError("broke")
        return "is full"

    opened = [Outcome("a", part(id="1")), failed("b", AWAY), Outcome("c", part(id="2"))]
    outcomes = await end_each(opened, end)
    assert [(outcome.subject, outcome.done, outcome.problem) for outcome in outcomes] == [
        ("a", "", "broke"),
        ("b", "", "away"),
        ("c", "is full", ""),
    ]
    assert ended == ["1", "2"]
