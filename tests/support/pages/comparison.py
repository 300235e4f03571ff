"""Compares actions of pages with their commands: the preview, the refusal, and the outcome.

``PREVIEWS`` and ``OUTCOMES`` have every row of the console's table of actions. A module that is named there has a last
test, which fails unless the module has compared its rows.
"""

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from hermesops.agents.instances.preview.change_preview import step_key
from hermesops.app import Container
from hermesops.base.waiting import Pending, until
from hermesops.console.actions.action import About, Action, ActionRequest
from hermesops.console.actions.table import find, subject_of
from hermesops.errors import HermesError, Hint
from hermesops.model.operation import OperationStatus
from tests.support.pages.console import OWN
from tests.support.real.commands.command import Ran

REASON = "a test"
NO_VALUES: Mapping[str, str] = {}

Row = tuple[str, str]
"""Subject and name of an action."""

_INSTANCES = frozenset(
    (About.INSTANCE.value, name)
    for name in (
        *("restart", "provision", "reboot", "back-up", "suspend", "resume", "configure", "settings-back"),
        *("resize", "restore", "move", "terminate", "undo-termination"),
    )
)
_ROLLOUTS = frozenset(
    (
        *((About.ROLLOUT.value, name) for name in ("pause", "resume", "promote", "retry", "abort", "roll-back")),
        (About.FLEET.value, "start-rollout"),
        (About.FLEET.value, "freeze"),
        (About.FREEZE.value, "unfreeze"),
    )
)
_OTHERS = frozenset(
    (
        *((About.OPERATION.value, name) for name in ("continue", "abandon")),
        (About.RUNBOOK.value, "run"),
    )
)
_UPKEEP = frozenset(
    (
        (About.JOB.value, "run"),
        (About.CELL.value, "drain-pool"),
        (About.DRILL.value, "run"),
        (About.CELL.value, "up"),
        (About.FLEET.value, "up-saved"),
        (About.FLEET.value, "rotate-tokens"),
        (About.MACHINE.value, "adopt"),
        (About.MACHINE.value, "remove-orphan"),
        (About.INSTANCE.value, "accept-size"),
        (About.RELEASE.value, "revoke"),
        *((About.FLEET.value, name) for name in ("build-release", "build-image", "rotate-registry-key")),
    )
)
_ALERTS = frozenset(((About.ALERT.value, "acknowledge"), (About.FLEET.value, "silence"), (About.SILENCE.value, "lift")))

PREVIEWS: Mapping[str, frozenset[Row]] = {
    "tests/e2e/test_console_actions.py": _INSTANCES | _ROLLOUTS | _OTHERS,
    "tests/e2e/test_console_upkeep.py": _UPKEEP,
    "tests/contract/console/test_alert_actions.py": _ALERTS,
    "tests/contract/console/test_caller_actions.py": frozenset({(About.CALLER.value, "revoke")}),
}
"""Rows of the table of actions whose preview or refusal a module compares with that of the command."""

OUTCOMES: Mapping[str, frozenset[Row]] = {
    "tests/e2e/test_console_actions.py": _INSTANCES | _OTHERS,
    "tests/unit/console/test_same_requests.py": _ROLLOUTS,
    "tests/e2e/test_console_upkeep.py": _UPKEEP,
    "tests/contract/console/test_alert_actions.py": _ALERTS,
    "tests/contract/console/test_caller_actions.py": frozenset({(About.CALLER.value, "revoke")}),
}
"""Rows whose outcome a module compares with that of the command."""

_CHANGING = {"usual_s", "down_s", "ends_at", "since", "for_s", "last", "ended", "next", "holder", "lease"}
"""Fields of a preview that differ from one moment to the next."""

_NAMED_BY_TIME = re.compile(r"tokens-\d{8}T\d{6}")

_PATH = re.compile(r"/console/(?:(?P<about>[a-z]+)/(?P<id>[^/]+)/)?change/(?P<name>[a-z-]+)")


def lasting(value: Any, *users: str) -> Any:  # noqa: ANN401 - JSON
    """A preview without moments, ids and users."""
    match value:
        case dict():
            return {key: lasting(part, *users) for key, part in value.items() if key not in _CHANGING}
        case list() | tuple():
            return [lasting(part, *users) for part in value]
        case str():
            for user in users:
                value = step_key(value, user)
            return "USER" if value in users else _NAMED_BY_TIME.sub("tokens-TIME", value)
        case _:
            return value


@dataclass
class Compared:
    """Rows that a module has compared.

    Attributes:
        previewed: Their previews or refusals.
        ended: Their outcomes.
    """

    previewed: set[Row] = field(default_factory=set)
    ended: set[Row] = field(default_factory=set)

    def refuse_gaps(self, request: pytest.FixtureRequest) -> None:
        """Fail unless the module has compared all its rows; only where all its tests are run."""
        module = request.node.nodeid.partition("::")[0]
        names = {name for name in vars(request.module) if name.startswith("test_")}
        chosen = {re.sub(r".*::|\[.*", "", item.nodeid) for item in request.session.items if module in item.nodeid}
        if names - chosen:
            pytest.skip("some tests of this module were left out")
        gaps = {"previews": PREVIEWS[module] - self.previewed, "outcomes": OUTCOMES[module] - self.ended}
        assert not any(gaps.values()), gaps


@dataclass
class Comparison:
    """Compares actions of pages with their commands over one world.

    Attributes:
        run: Runs a command of hermesops in that world.
    """

    container: Container
    client: httpx.AsyncClient
    run: Callable[..., Awaitable[Ran]]
    compared: "Compared"

    async def preview(
        self, path: str, values: Mapping[str, str] = NO_VALUES, *, twin: str = "", users: tuple[str, ...] = ()
    ) -> bool:
        """Compare the preview of a page, or its refusal, with those of the command; whether it is refused.

        Args:
            twin: Id of the subject of the command; that of the page unless given.
            users: Names that differ between the two.
        """
        action, subject_id = _named(path)
        words = await self.words(action, twin or subject_id, values)
        ran = await self.run(*words, "--dry-run", "--json")
        page = await self.client.get(path, params=values)
        assert page.status_code == 200, page.text
        shape, problem = await self._of_page(action, subject_id, values)
        assert (problem is not None) == bool(ran.exit_code) == ("Refused now:" in page.text), (path, str(ran), problem)
        if problem is not None:
            assert lasting(problem, *users) == lasting(ran.json["message"], *users), path
        else:
            dry = {key: value for key, value in ran.json.items() if key not in {"kind", "version", "dry_run"}}
            assert lasting(shape, *users) == lasting(dry.get("preview", dry), *users), (path, shape, dry)
            await self._for_people(action, words)
        self.compared.previewed.add((action.about.value, action.name))
        return problem is not None

    async def _for_people(self, action: Action, words: tuple[str, ...]) -> None:
        """A dry run as people read it; those of agents' changes and of rollouts have tests of their own."""
        if (action.about.value, action.name) in _INSTANCES | _ROLLOUTS:
            return
        ran = await self.run(*words, "--dry-run")
        assert (ran.exit_code, bool(ran.stdout)) == (0, True), str(ran)

    async def begin(self, path: str, typed: str = "", values: Mapping[str, str] = NO_VALUES) -> str:
        """Begin an action by its page; the path of the page that it leads to."""
        response = await self.client.post(path, data={**values, "reason": REASON, "typed": typed}, headers=OWN)
        problem = re.search(r'id="problem">(.*)</div>', response.text)
        assert response.status_code == 200, (path, problem[1] if problem else response.text)
        return response.headers["hx-redirect"]

    async def command(self, path: str, values: Mapping[str, str] = NO_VALUES, *, twin: str = "") -> Ran:
        """Run the command of an action; no test that compares its outcome may leave it out."""
        action, subject_id = _named(path)
        words = await self.words(action, twin or subject_id, values)
        is_agreed = "--yes" in words or not action.destroys
        ran = await self.run(*words, *(() if is_agreed else ("--yes",)), "--json")
        self.compared.ended.add((action.about.value, action.name))
        return ran

    async def words(self, action: Action, subject_id: str, values: Mapping[str, str]) -> tuple[str, ...]:
        """The command of an action, with a reason."""
        subject = await subject_of(self.container, action.about, subject_id)
        return action.command(ActionRequest(subject, values, REASON))

    async def _of_page(self, action: Action, subject_id: str, values: Mapping[str, str]) -> tuple[Any, str | None]:
        subject = await subject_of(self.container, action.about, subject_id)
        try:
            preview = await action.work.preview(self.container, ActionRequest(subject, values))
        except HermesError as problem:
            return None, problem.message
        return json.loads(json.dumps(preview.shape, default=_plain)), None

    async def operation(self, page: str) -> OperationStatus:
        """The status of the operation of a page, once it has ended."""

        async def look() -> OperationStatus | Pending[OperationStatus]:
            status = self.container.operation_directory.get(page.rpartition("/")[2]).status
            return status if status.has_ended else Pending(status.value)

        return await until(look, what=page, timeout_s=120, every_s=0.2)

    def noted(self, action: str, count: int) -> list[Any]:
        """The newest audit entries of an action, the oldest first: subject's kind, reason, before and after."""
        entries = [entry for entry in self.container.audit.list(limit=200) if entry.action == action][:count]
        assert len(entries) == count, (action, entries)
        return [(entry.subject.partition("/")[0], entry.why, entry.before, entry.after) for entry in entries[::-1]]

    def whoever(self, action: str, count: int) -> list[str]:
        """The authors of the newest audit entries of an action, the oldest first."""
        entries = [entry for entry in self.container.audit.list(limit=200) if entry.action == action][:count]
        return [entry.who for entry in entries[::-1]]


def _named(path: str) -> tuple[Action, str]:
    match = _PATH.fullmatch(path)
    assert match, path
    action = find(match["about"] or About.FLEET, match["name"])
    assert action, path
    return action, unquote(match["id"] or "")


def _plain(value: object) -> str:
    return value.text("") if isinstance(value, Hint) else str(value)
