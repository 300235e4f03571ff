"""Each action is a command that exists, with each of its values; values of forms are bounded."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from hermesops.cli import root
from hermesops.console.actions import bulk
from hermesops.console.actions.action import About, Action, ActionRequest, ActionValue, Begun, Preview, Subject
from hermesops.console.actions.running import RunningActions
from hermesops.console.actions.table import ACTIONS, about, find, subject_of
from hermesops.console.topics.listings import LISTINGS, Listing
from hermesops.console.topics.questions import QUESTIONS, Question
from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from tests.support.fakes.instances import ADA
from tests.support.pages.comparison import OUTCOMES, PREVIEWS

IDS = [f"{action.about}-{action.name}" for action in ACTIONS]
NAMES = {About.FLEET: "", About.FREEZE: "0a1b2c3d"}


WORDS = (("--a", "x"), ("--b",), ("t",), ())


def subject(action: Action) -> Subject:
    name = NAMES.get(action.about, "ada")
    return Subject(name, name, name or "local", "")


def examples(action: Action) -> Iterator[Mapping[str, str]]:
    """Values with each choice, flag and text once."""
    required = {field.name: (field.choices or ("text",))[0] for field in action.fields if field.is_required}
    yield required
    for field in action.fields:
        for value in ("on",) if field.is_flag else field.choices or ("text",):
            yield {**required, field.name: value}


def example(action: Action) -> ActionRequest:
    return ActionRequest(subject(action), next(examples(action)), "a test")


def parsed(words: Sequence[str]) -> Mapping[str, Any]:
    """The parameters that the command reads from its words; nothing runs."""
    command: Any = typer.main.get_command(root.app)
    context, rest = command.make_context("hermesops", [], resilient_parsing=True), list(words)
    while hasattr(command, "get_command"):
        command = command.get_command(context, rest.pop(0))
        assert command is not None, words
    params: Mapping[str, Any] = command.make_context("it", rest).params
    return params


@pytest.mark.parametrize("action", ACTIONS, ids=IDS)
def test_each_action_is_a_command_with_each_of_its_values(action: Action) -> None:
    for values in examples(action):
        request = ActionRequest(subject(action), values, "a test")
        read = [
            str(value) if isinstance(value, Path) else value
            for value in parsed(action.command(request)).values()
            if value
        ]
        given = [*values.values(), *([request.subject.name] if request.subject.name else [])]
        given += [request.reason] if action.takes_reason else []
        for value in given:
            wanted = {"on": True}.get(value, value)
            assert wanted in read or [wanted] in read, (action.command(request), read)


def test_each_action_is_compared_with_its_command_by_a_test() -> None:
    rows = {(action.about.value, action.name) for action in ACTIONS}
    for table in (PREVIEWS, OUTCOMES):
        assert set().union(*table.values()) == rows
        assert sum(map(len, table.values())) == len(rows), "once each"
        assert [module for module in table if not (Path(__file__).parents[3] / module).exists()] == []


def test_each_command_has_a_dry_run() -> None:
    assert [action.words for action in ACTIONS if "dry_run" not in parsed(action.command(example(action)))] == []


def test_names_are_paths_and_each_is_there_once() -> None:
    keys = [(action.about, action.name) for action in ACTIONS]
    assert len(keys) == len(set(keys))
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz-") for _, name in keys)
    assert {action.name for kind in About for action in about(kind).values()} == {name for _, name in keys}
    assert find("instances", "restart") is about(About.INSTANCE)["restart"]
    assert find("instances", "pause") is find("nowhere", "restart") is None


def test_an_action_that_destroys_or_changes_needs_a_reason_or_has_none_in_its_command() -> None:
    # The command of a drill has no reason: the drill is one.
    assert all(action.takes_reason for action in ACTIONS if action.destroys and action.about is not About.DRILL)


def test_values_of_forms_are_bounded() -> None:
    choice, flag, text = (
        ActionValue("a", "A", "--a", ("x", "y")),
        ActionValue("b", "B", "--b", is_flag=True),
        ActionValue("c", "C"),
    )
    assert (choice.parse(" x "), flag.parse("on"), text.parse(" a  b\n")) == ("x", "on", "a b")
    assert (choice.words("x"), flag.words("on"), text.words("t"), text.words("")) == (
        ("--a", "x"),
        ("--b",),
        ("t",),
        (),
    )
    for field, value in ((choice, "z"), (flag, "yes"), (text, "x" * 501), (text, "\u202e"), (text, "a\x00b")):
        with pytest.raises(UsageError, match=r"one of|at most 500 characters"):
            field.parse(value)
    assert choice.parse("") == flag.parse("") == ""


async def test_a_page_of_a_former_instance_never_means_the_users_new_one() -> None:
    instances = SimpleNamespace(get=lambda _: ADA, find=lambda _: ADA)
    container: Any = SimpleNamespace(instances=instances)
    assert (await subject_of(container, About.INSTANCE, ADA.id)).name == "ada"
    instances.find = lambda _: dataclasses.replace(ADA, id=InstanceId("newer"))
    assert (await subject_of(container, About.INSTANCE, ADA.id)).name == ADA.id


@pytest.mark.parametrize("listing", LISTINGS.values(), ids=LISTINGS)
def test_each_list_names_its_command(listing: Listing) -> None:
    filters = dict.fromkeys(listing.filters, "7d")
    read = parsed(listing.command(filters))
    assert [name for name in listing.filters if read[name] != "7d"] == []


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_each_page_that_asks_others_names_its_command(question: Question) -> None:
    filters = dict.fromkeys(question.filters, "7d")
    read = parsed(question.command(filters))
    assert [name for name in question.filters if read[name] != "7d"] == []


def test_a_bulk_action_is_of_few_instances_and_destroys_nothing() -> None:
    assert {"restart", "suspend", "resume", "back-up"} <= set(bulk.actions())
    assert not {"terminate", "restore"} & set(bulk.actions())
    bulk.refuse_wrong_count([InstanceId("1")] * bulk.MOST)
    for count in (0, bulk.MOST + 1):
        with pytest.raises(UsageError, match=r"no instance matches|51 instances match"):
            bulk.refuse_wrong_count([InstanceId("1")] * count)


def test_repairs_of_several_agents_by_the_same_command_are_one_bulk_action() -> None:
    pages = [
        *(f"instances/{number}/change/provision?plan=light" for number in (1, 2, 2)),
        "instances/3/change/provision?plan=heavy",
        *(f"instances/{number}/change/restore?onto_new_machine=on" for number in (1, 2)),
        *(f"machines/{number}/change/adopt" for number in (1, 2)),
        *("instances/4/change/back-up", "instances/5/change/back-up", ""),
    ]
    assert bulk.pages_of(pages) == {"bulk/provision?ids=1,2&plan=light": 2, "bulk/back-up?ids=4,5": 2}
    many = bulk.pages_of([f"instances/{number}/change/back-up" for number in range(60)])
    assert list(many.values()) == [bulk.MOST]


async def test_parts_of_a_bulk_action_wait_for_each_other() -> None:
    at_once, most, opened = 0, 0, 0
    all_opened = asyncio.Event()

    async def go_on() -> None:
        nonlocal at_once, most
        await all_opened.wait()
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0)  # noqa: TID251 - lets the others come
        at_once -= 1

    class Slow:
        async def preview(self, _container: object, _request: ActionRequest) -> Preview:
            return Preview("checked", {})

        async def begin(self, _connected: object, _request: ActionRequest) -> Begun:
            nonlocal opened
            opened += 1
            return Begun(f"operations/{opened}", go_on)

    @asynccontextmanager
    async def connect() -> AsyncIterator[None]:
        yield

    instances = SimpleNamespace(get=lambda id_: dataclasses.replace(ADA, id=id_), find=lambda _: ADA)
    container: Any = SimpleNamespace(instances=instances, connect=connect, acting_via=lambda _: nullcontext())
    action = Action(About.INSTANCE, "slow", "Slow", ("instance", "restart"), Slow())
    running, ids = RunningActions(container), [InstanceId(str(number)) for number in range(20)]
    begun = await bulk.begin(running, action, ids, {}, "a test")
    assert (begun.operations, begun.refused) == ([str(number) for number in range(1, 21)], [])
    all_opened.set()
    await asyncio.gather(*running._running)
    assert most == 4
