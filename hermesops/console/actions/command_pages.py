"""Pages of commands: of the action that a command is, filled with its values, or of whatever it shows.

A command that has another option, or a word that is still to be filled in, has no page: that would show something else.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlencode

from hermesops.console.actions.action import About, Action, ActionValue
from hermesops.console.actions.table import ACTIONS, find_subject
from hermesops.errors import UsageError

if TYPE_CHECKING:
    from hermesops.app.container import Container

Offer = Callable[[Action], Action | None]
"""An action with the values that the operator may give it; ``None`` where they may not begin it."""

_OPEN = re.compile(r"(.*[/=])?[A-Z][A-Z_]+")
"""A word in capitals, or one that ends so: a value is to come there."""

_AGREED, _REASON = "--yes", "--reason"
"""Options of commands in whose place a page asks."""

_PAGES: Mapping[tuple[str, ...], str] = {
    ("fleet", "status"): "",
    ("fleet", "status", "--ask"): "",
    ("fleet", "status", "--live"): "",
    ("fleet", "status", "--live", "--ask"): "",
    ("alert", "list"): "alerts",
    ("instance", "list"): "instances",
    ("operation", "list"): "operations",
    ("operation", "list", "--all"): "operations",
    ("rollout", "list"): "rollouts",
    ("rollout", "list", "--all"): "rollouts",
    ("rollout", "freezes"): "rollouts",
}
"""Pages that show what a command shows."""

_SUBJECTS: Mapping[tuple[str, ...], About] = {
    ("instance", "show"): About.INSTANCE,
    ("instance", "timeline"): About.INSTANCE,
    ("operation", "show"): About.OPERATION,
    ("rollout", "status"): About.ROLLOUT,
    ("rollout", "history"): About.ROLLOUT,
    ("rollout", "explain"): About.ROLLOUT,
    ("runbook", "show"): About.RUNBOOK,
    ("cell", "show"): About.CELL,
}
"""Commands that show one subject, which has a page."""

_WORDS = 2
"""Of a command that shows one subject, before its name."""


class ListPage(Protocol):
    """A page that shows what a command shows: a list, or a page for which others are asked."""

    @property
    def name(self) -> str:
        """Its path."""

    @property
    def words(self) -> tuple[str, ...]:
        """Of the command."""

    @property
    def filters(self) -> tuple[str, ...]:
        """Names of options of the command that the page has too."""


def page_of_command(container: "Container", command: Sequence[str], offer: Offer) -> str:
    """The page of the action that a command is, below the console's; empty where there is none.

    Args:
        command: Its words after ``hermesops``, as a repair or a step of a runbook has it.
    """
    offered = (action for action in map(offer, ACTIONS) if action is not None)
    return next(filter(None, (_page(container, action, command) for action in offered)), "")


def page_of_reading(container: "Container", command: Sequence[str], lists: Sequence[ListPage]) -> str | None:
    """The page that shows what a command shows, below the console's; ``None`` where there is none.

    Args:
        lists: Lists that have a page here, and pages for which others are asked.
    """
    words = tuple(command)
    if words in _PAGES:
        return _PAGES[words]
    about, name = _SUBJECTS.get(words[:_WORDS]), words[_WORDS:]
    if about is not None:
        subject_id = _subject_id(container, about, name[0]) if len(name) == 1 and not _is_open(name[0]) else ""
        return f"{about.value}/{quote(subject_id, safe='')}" if subject_id else None
    return next(filter(None, (_list(listing, words) for listing in lists)), None)


def _list(listing: ListPage, command: tuple[str, ...]) -> str:
    """The page of a list with the filters of a command; empty where the command shows something else."""
    rest = command[len(listing.words) :]
    if command[: len(listing.words)] != listing.words or any(map(_is_open, rest)):
        return ""
    if not rest:
        return listing.name
    if len(rest) == 1 and not rest[0].startswith("-"):  # a user
        return f"{listing.name}?{urlencode({'q': rest[0]})}"
    filters = {option.removeprefix("--"): value for option, value in list(pairwise(rest))[::2]}
    is_whole = len(rest) == 2 * len(filters) and filters.keys() <= {*listing.filters}
    return f"{listing.name}?{urlencode(filters)}" if is_whole else ""


def _page(container: "Container", action: Action, command: Sequence[str]) -> str:
    given = _given(action, command)
    if given is None or action.missing(given[1]):
        return ""
    name, values = given
    query = f"?{urlencode(values)}" if values else ""
    if action.about is About.FLEET:
        return f"change/{action.name}{query}"
    subject_id = _subject_id(container, action.about, name)
    return f"{action.about.value}/{quote(subject_id, safe='')}/change/{action.name}{query}" if subject_id else ""


def _subject_id(container: "Container", about: About, name: str) -> str:
    """The id of a subject that a command names; empty where there is none."""
    try:
        if about is About.INSTANCE:
            return container.instances.find(name).id
        if about is About.ROLLOUT:
            return container.rollouts.find(name).id
        return find_subject(container, about, name).id
    except UsageError:
        return ""


def _given(action: Action, command: Sequence[str]) -> tuple[str, Mapping[str, str]] | None:
    """The subject and the values that a command gives to an action; ``None`` where it is another command."""
    fixed = {word for word in action.words if word.startswith("-")} - {_AGREED}
    words = [word for word in action.words if not word.startswith("-")]
    options = _options(action, command[len(words) :], fixed)
    if list(command[: len(words)]) != words or options is None:
        return None
    named, values, places = options
    has_subject = action.about is not About.FLEET
    arguments = [*([named] if action.subject_option and named else []), *places]
    fields = [field for field in action.fields if not field.option]
    if (has_subject and not arguments) or (action.subject_option and not named):
        return None
    name, rest = (arguments[0], arguments[1:]) if has_subject else ("", arguments)
    if len(rest) > len(fields):
        return None
    try:
        texts = {**values, **{field.name: text for field, text in zip(fields, rest, strict=False)}}
        parsed = {field.name: field.parse(texts[field.name]) for field in action.fields if field.name in texts}
    except UsageError:
        return None
    return None if any(map(_is_open, (name, *parsed.values()))) else (name, parsed)


def _options(
    action: Action, rest: Sequence[str], fixed: set[str]
) -> tuple[str, Mapping[str, str], Sequence[str]] | None:
    """The subject named by an option, values by fields, and the other words; ``None`` for a wrong option or none."""
    fields: Mapping[str, ActionValue] = {field.option: field for field in action.fields if field.option}
    named, values, places, left = "", dict[str, str](), list[str](), list(rest)
    while left:
        word = left.pop(0)
        if word == _AGREED or word in fixed:
            fixed = fixed - {word}
        elif word in fields and fields[word].is_flag:
            values[fields[word].name] = "on"
        elif not word.startswith("-"):
            places.append(word)
        elif not left:
            return None
        elif word == action.subject_option:
            named = left.pop(0)
        elif word in fields:
            values[fields[word].name] = left.pop(0)
        elif word == _REASON and action.takes_reason:
            left.pop(0)
        else:
            return None
    return None if fixed else (named, values, places)


def _is_open(word: str) -> bool:
    """Whether a word is still to be filled in."""
    return bool(_OPEN.fullmatch(word)) or "…" in word
