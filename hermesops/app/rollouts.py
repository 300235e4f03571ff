"""Composes rollouts: who is brought what from the registry, runners of machines, health, hooks and the clock."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hermesops import waiting
from hermesops.app.narration import warn
from hermesops.app.rollout_rows import RolloutRows, records_of
from hermesops.app.rollout_targets import FIELDS, candidates, look_at_unknown, selected
from hermesops.errors import RefusedError, UsageError
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Rollout, RolloutEvent, RolloutId, RolloutState, Target
from hermesops.model.rollout_spec import Action, Spec
from hermesops.model.selector import Selector
from hermesops.operation.registry_thread import apart

if TYPE_CHECKING:
    from hermesops.app.app import App
    from hermesops.app.session import Session
    from hermesops.model.freeze import Freeze
    from hermesops.operation.runner import Make
    from hermesops.registry import Registry
    from hermesops.rollout.ports import Machines, Records
    from hermesops.rollout.runner import Runner

_ID_BYTES = 3
"""Of a rollout's id, which people type: sixteen million, and one that is taken already is refused by the database."""

_QUEUE_S = 7 * 86_400.0


@dataclass(frozen=True)
class Wish:
    """What an operator asks for.

    Attributes:
        release: An id, the beginning of one, or an agent's version.
        where: Whom, as ``--where`` reads; empty for everybody.
        everybody: That this is meant.
        reason: Goes into the audit.
    """

    release: str
    where: str
    everybody: bool
    spec: Spec
    action: Action
    reason: str


class Rollouts:
    """Rollouts of one session's environment.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._app = session.app
        self._registry = session.app.registry

    def by_kind(self) -> "Mapping[OperationKind, Make]":
        """What brings a rollout forward."""
        return {OperationKind.ROLLOUT: self._work}

    def _work(self, operation: Operation, lease: Lease) -> "Runner":
        from hermesops.app.watching import Watching
        from hermesops.rollout.runner import Runner
        from hermesops.rollout.web_hooks import Hooks, WebHook

        env, rollout_id = self._app.env, RolloutId(str(operation.intent["rollout"]))
        url = env.settings.rollout_webhook.get_secret_value() if env.settings.rollout_webhook else ""
        return Runner(
            RolloutRows(self._registry, rollout_id, lease),
            self._machines(rollout_id),
            watches=Watching(self._session),
            asks=Hooks(environment=env.name, variables=env.inherited),
            notifies=WebHook(url, environment=env.name, warn=warn),
            calendar=Calendar(self._registry),
            clock=RegistryClock(self._registry),
        )

    def _machines(self, rollout_id: RolloutId) -> "Machines":
        from hermesops.app.rollout_machines import SlotMachines

        rollout = self._registry.get_rollout(rollout_id)
        if rollout.action is Action.MACHINE:
            raise RefusedError(f"rollout {rollout_id} changes whole machines, which nothing here does yet")
        return SlotMachines(self._session, f"rollout {rollout_id}")

    async def start(self, wish: Wish) -> tuple[Rollout, Operation]:
        """Freeze the targets and write everything down; or find the same that was begun and has not ended.

        Raises:
            UsageError: Nobody is meant, or everybody without a word that says so.
            RefusedError: The release is unknown, revoked or bad, or another rollout has some of the instances.
        """
        release = await apart(check_release, self._app, wish.release)
        if found := unfinished(self._registry, release, wish):
            return found, self._registry.reopen_rollout_operation(found)
        targets = meant(self._registry, wish)
        await look_at_unknown(self._session, targets)
        return await apart(self._write, release, wish)

    async def await_others(self, wish: Wish) -> None:
        """Return once no other rollout that has not ended has any of the instances that are meant.

        Raises:
            UsageError: Nobody is meant.
        """
        release = await apart(check_release, self._app, wish.release)
        if await apart(unfinished, self._registry, release, wish):
            return

        async def look() -> bool | waiting.Pending[bool]:
            other = await apart(ahead, self._registry, meant(self._registry, wish))
            return waiting.Pending(f"rollout {other.id} is {other.state.value}: {other.reason}") if other else True

        what = "the end of the rollout ahead"
        await waiting.until(look, what=what, timeout_s=_QUEUE_S, every_s=2.0, tell=self._app.tell)

    def _write(self, release: ReleaseId, wish: Wish) -> tuple[Rollout, Operation]:
        from hermesops.rollout.courses import course

        targets, now = meant(self._registry, wish), self._registry.now()
        rollout = Rollout(
            id=RolloutId(secrets.token_hex(_ID_BYTES)),
            release=release,
            action=wish.action,
            spec=wish.spec,
            state=RolloutState.PENDING,
            reason=wish.reason or "asked for",
            who=self._registry.actor,
            created_at=now,
            updated_at=now,
        )
        placed = course(release, targets, wish.spec)
        event = RolloutEvent(now, "start", _told(rollout, wish), _evidence(targets))
        return rollout, self._registry.add_rollout(rollout, placed, event)


def check_release(app: "App", text: str) -> ReleaseId:
    """The release that is meant, if it may be rolled out.

    Raises:
        RefusedError: It is unknown, revoked, below the floor or needs a newer hermes-node, or its signature is bad.
    """
    from hermesops.node import protocol

    lock = app.releases.find(text)
    app.releases.refuse_revoked(lock)
    if lock.node.protocol > protocol.VERSION:
        raise RefusedError(
            f"release {lock.id} needs a hermes-node of protocol {lock.node.protocol}; this hermesops speaks "
            f"{protocol.VERSION}",
            hint="install the hermesops that the release was built with",
        )
    return ReleaseId(lock.id)


def meant(registry: "Registry", wish: Wish) -> tuple[Target, ...]:
    """Whom a wish is about.

    Raises:
        UsageError: Nobody, or everybody without a word that says so.
    """
    if not wish.where and not wish.everybody:
        raise UsageError(
            "to whom? --where plan=light,cell=…, or --all for every running instance",
            hint="hermesops rollout preview RELEASE --all shows what would happen",
        )
    targets = selected(candidates(registry), Selector.parse(wish.where, fields=FIELDS))
    if not targets:
        who = f"no running instance is {wish.where!r}" if wish.where else "no instance is running"
        raise UsageError(f"{who}: there is nobody to bring it to", hint="hermesops instance list")
    return targets


def unfinished(registry: "Registry", release: ReleaseId, wish: Wish) -> Rollout | None:
    """The same rollout, begun before and not ended: whoever asks again goes on with it."""
    for rollout in registry.list_rollouts(unfinished=True):
        started = registry.latest_rollout_events(rollout.id).get("start")
        same = started is not None and started.decision.get("where") == wish.where
        if same and (rollout.release, rollout.action) == (release, wish.action):
            return rollout
    return None


def ahead(registry: "Registry", targets: Sequence[Target]) -> Rollout | None:
    """A rollout that has not ended and has one of these instances."""
    ours = {target.instance_id for target in targets}
    for rollout in registry.list_rollouts(unfinished=True):
        if ours & {target.id for target in registry.rollout_targets(rollout.id)}:
            return rollout
    return None


class Calendar:
    """When nothing may be changed.

    Args:
        registry: Where freezes are written.
    """

    def __init__(self, registry: "Registry") -> None:
        self._registry = registry

    async def freezes(self) -> "Sequence[Freeze]":
        """Those that are not lifted."""
        return await apart(self._registry.list_freezes)


class RegistryClock:
    """The registry's clock, asked once: computers need not agree with it, only run as fast.

    Args:
        registry: Whose.
    """

    def __init__(self, registry: "Registry") -> None:
        self._ahead: timedelta = registry.now() - datetime.now(UTC)

    def now(self) -> datetime:
        """The present moment."""
        return datetime.now(UTC) + self._ahead

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        await waiting.pause(seconds)


def records(app: "App", text: str) -> "Records":
    """All that is written of the rollout that an operator means; of the one under way for an empty text.

    Raises:
        UsageError: There is none of that id.
    """
    return records_of(app.registry, app.registry.find_rollout(text).id)


def _told(rollout: Rollout, wish: Wish) -> dict[str, object]:
    return {
        "why": rollout.reason,
        "who": rollout.who,
        "release": rollout.release,
        "where": wish.where,
        "action": rollout.action.value,
    }


def _evidence(targets: Sequence[Target]) -> dict[str, object]:
    befores = [target.release_before or "unknown" for target in targets]
    return {"targets": len(targets), "release_before": {one: befores.count(one) for one in sorted(set(befores))}}
