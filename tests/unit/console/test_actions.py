"""Each action is a command that exists, with each of its values; values of forms are bounded."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
import typer.main

from hermesops.cli import root
from hermesops.console.actions.action import About, Action, ActionRequest, Field, Subject
from hermesops.console.actions.table import ACTIONS, about, find, subject_of
from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from tests.support.fakes.instances import ADA

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
        read = [value for value in parsed(action.command(request)).values() if value]
        given = [*values.values(), *([request.subject.name] if request.subject.name else [])]
        given += [request.reason] if action.takes_reason else []
        for value in given:
            wanted = {"on": True}.get(value, value)
            assert wanted in read or [wanted] in read, (action.command(request), read)


def test_names_are_paths_and_each_is_there_once() -> None:
    keys = [(action.about, action.name) for action in ACTIONS]
    assert len(keys) == len(set(keys))
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz-") for _, name in keys)
    assert {action.name for kind in About for action in about(kind).values()} == {name for _, name in keys}
    assert find("instances", "restart") is about(About.INSTANCE)["restart"]
    assert find("instances", "pause") is find("nowhere", "restart") is None


def test_an_action_that_destroys_or_changes_needs_a_reason_or_has_none_in_its_command() -> None:
    assert all(action.takes_reason for action in ACTIONS if action.destroys)


def test_values_of_forms_are_bounded() -> None:
    choice, flag, text = Field("a", "A", "--a", ("x", "y")), Field("b", "B", "--b", is_flag=True), Field("c", "C")
    assert (choice.parse(" x "), flag.parse("on"), text.parse(" a  b\n")) == ("x", "on", "a b")
    assert (choice.words("x"), flag.words("on"), text.words("t"), text.words("")) == (
        ("--a", "x"),
        ("--b",),
        ("t",),
        (),
    )
    for field, value in ((choice, "z"), (flag, "yes"), (text, "x" * 501), (text, "\u202e"), (text, "a\x00b")):
        with pytest.raises(UsageError):
            field.parse(value)
    assert choice.parse("") == flag.parse("") == ""


async def test_a_page_of_a_former_instance_never_means_the_users_new_one() -> None:
    instances = SimpleNamespace(get=lambda _: ADA, find=lambda _: ADA)
    container: Any = SimpleNamespace(instances=instances)
    assert (await subject_of(container, About.INSTANCE, ADA.id)).name == "ada"
    instances.find = lambda _: dataclasses.replace(ADA, id=InstanceId("newer"))
    assert (await subject_of(container, About.INSTANCE, ADA.id)).name == ADA.id
