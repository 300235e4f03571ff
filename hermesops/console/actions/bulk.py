"""One action of many instances: each with its own preview and its own operation, some at a time."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from hermesops.base.fan_out import Limits, fan_out
from hermesops.console.actions.action import About, Action, ActionRequest, Preview
from hermesops.console.actions.operations import OperationWork, ProvisionWork
from hermesops.console.actions.table import about, subject_of
from hermesops.errors import HermesError, Hint, UnknownOutcomeError, UsageError
from hermesops.model.ids import InstanceId

if TYPE_CHECKING:
    from hermesops.app.container import Container

MOST = 50
"""Instances of one bulk action. For a whole fleet, a rollout has stages and gates."""

_AT_ONCE = 4
"""Operations of a bulk action that run at the same time."""

_WITHIN_S = 60.0
"""Seconds for the preview of an instance, or for its operation to be opened."""

_LIMITS = Limits(at_once=8, slow_after_s=2.0, within_s=_WITHIN_S)
"""All of them end within 72 s, before those who pass requests on give the page up."""

_BEGINS = replace(_LIMITS, within_s=_WITHIN_S + 5)
"""With time to say that an outcome is unknown."""


class ConsoleActions(Protocol):
    """Previews and begins actions: in this process, or by workers."""

    @property
    def container(self) -> "Container":
        """The parts of this process."""

    async def preview(self, action: Action, request: ActionRequest) -> Preview:
        """The effects of an action, if it began now. Raises ``HermesError`` where it is refused."""

    async def begin(self, action: Action, request: ActionRequest, slots: asyncio.Semaphore | None = None) -> str:
        """Begin an action; returns the path of its page. ``slots``: so many of a bulk action go on at a time.

        Raises:
            UnknownOutcomeError: It may have begun.
            HermesError: It is refused; nothing was changed.
        """


@dataclass(frozen=True)
class Part:
    """One instance of a bulk action.

    Attributes:
        preview: Or why it is refused.
    """

    request: ActionRequest
    command: tuple[str, ...]
    preview: Preview | HermesError


@dataclass(frozen=True)
class Opened:
    """A bulk action that has begun.

    Attributes:
        operations: Their ids.
        refused: Ids of the instances that were refused.
        undecided: Ids of the instances of which it is unknown whether their operation was, or will be, opened.
    """

    operations: Sequence[str]
    refused: Sequence[InstanceId]
    undecided: Sequence[InstanceId]


def actions() -> Mapping[str, Action]:
    """Actions that can be begun for many instances: operations that destroy nothing."""
    return {
        name: action
        for name, action in about(About.INSTANCE).items()
        if isinstance(action.work, OperationWork | ProvisionWork) and not action.destroys
    }


def pages_of(pages: Sequence[str]) -> Mapping[str, int]:
    """Of pages of repairs, those of bulk actions that do several at once, each with the count of its instances.

    Args:
        pages: As ``page_of_command`` has them; empty ones are left out.
    """
    ids: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for path, _, query in (page.partition("?") for page in dict.fromkeys(pages)):
        about_, _, rest = path.partition("/")
        instance_id, _, name = rest.partition("/change/")
        if about_ == About.INSTANCE and name in actions():
            ids[name, query].append(instance_id)
    return {
        f"bulk/{name}?ids={','.join(of[:MOST])}{'&' if query else ''}{query}": len(of[:MOST])
        for (name, query), of in ids.items()
        if len(of) > 1
    }


def refuse_wrong_count(ids: Sequence[InstanceId]) -> None:
    """Refuse a bulk action of no instance, or of too many.

    Raises:
        UsageError: As above.
    """
    if not ids:
        raise UsageError("no instance matches", hint=Hint(("instance", "list")))
    if len(ids) > MOST:
        hint = Hint("choose fewer; for a whole fleet:", ("rollout", "start", "RELEASE", "--all"))
        raise UsageError(f"{len(ids)} instances match; a bulk action can have at most {MOST}", hint=hint)


async def previews(
    running: ConsoleActions, action: Action, ids: Sequence[InstanceId], values: Mapping[str, str]
) -> Sequence[Part]:
    """The preview of each instance, in their order.

    Raises:
        UsageError: As ``refuse_wrong_count``.
    """
    refuse_wrong_count(ids)
    requests = [
        ActionRequest(await subject_of(running.container, About.INSTANCE, instance_id), values) for instance_id in ids
    ]

    async def preview(request: ActionRequest) -> Preview:
        return await running.preview(action, request)

    answers = await fan_out(requests, preview, _LIMITS)
    return [Part(request, action.command(request), answer) for request, answer in zip(requests, answers, strict=True)]


async def begin(
    running: ConsoleActions,
    action: Action,
    ids: Sequence[InstanceId],
    values: Mapping[str, str],
    reason: str,
) -> Opened:
    """Open the operation of each instance; one that is refused keeps no other from being opened.

    Raises:
        UsageError: As ``refuse_wrong_count``.
    """
    refuse_wrong_count(ids)
    slots = asyncio.Semaphore(_AT_ONCE)

    async def open_for(instance_id: InstanceId) -> str:
        subject = await subject_of(running.container, About.INSTANCE, instance_id)
        try:
            async with asyncio.timeout(_WITHIN_S):
                return await running.begin(action, ActionRequest(subject, values, reason), slots)
        except TimeoutError as error:
            raise UnknownOutcomeError(f"not decided within {_WITHIN_S:g} s") from error

    outcomes = list(zip(ids, await fan_out(ids, open_for, _BEGINS), strict=True))
    return Opened(
        [page.rpartition("/")[2] for _, page in outcomes if isinstance(page, str)],
        [id_ for id_, error in outcomes if isinstance(error, HermesError) and not _is_unknown(error)],
        [id_ for id_, error in outcomes if _is_unknown(error)],
    )


def _is_unknown(outcome: object) -> bool:
    return isinstance(outcome, UnknownOutcomeError)
