"""One run over one stack: the program's registrations, then deletions, then the history's entry."""

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pulumi.runtime.proto import resource_pb2

from hermesops.errors import HermesError, PartlyDoneError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.infra.engine.embedded.plugins.provider_pool import Providers
from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.goal import goal_of
from hermesops.infra.engine.embedded.protocol.plugin import DIED
from hermesops.infra.engine.embedded.protocol.values import Message, from_wire, is_unknown, to_wire
from hermesops.infra.engine.embedded.run.adoption import settle_creates, stuck_in
from hermesops.infra.engine.embedded.run.apply import Applier, StopRunError
from hermesops.infra.engine.embedded.run.events import COUNTED, EventLog, Op
from hermesops.infra.engine.embedded.run.program import ProgramHost, Registrations, StoppedError
from hermesops.infra.engine.embedded.run.refresh import refresh
from hermesops.infra.engine.embedded.run.register import Registrar
from hermesops.infra.engine.embedded.run.removal import remove_everything, remove_unwanted
from hermesops.infra.engine.embedded.state.deployment import Deployment
from hermesops.infra.engine.embedded.state.journal import Journal
from hermesops.infra.engine.options import REPEAT, RunKind, RunOptions, UnsupportedByEmbeddedError, listed, stopped
from hermesops.model.stack import Change, ChangeKind

T = TypeVar("T")

END_LIMIT_S = 60.0
"""How long a stopped run waits for what its providers are doing; after that the state says it is unfinished."""


@dataclass
class Run:
    """A single run of the embedded engine over one stack.

    Attributes:
        verdict: The error of the run, if it is ours and not a provider's.
        started: Unix time of the begin.
    """

    journal: Journal
    before: Deployment
    events: EventLog
    providers: Providers
    options: RunOptions
    parallel: int
    verdict: Exception | None = None
    started: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.dry = self.journal.dry
        self.applier = Applier(self.journal, self.events, self.providers, self.options, self.parallel, self.dry)
        self._registrar = Registrar(self.applier)
        self._under_way: set[asyncio.Task[Any]] = set()

    async def do(self, kind: RunKind) -> None:
        """Do the run; see ``error`` for how it ended."""
        await self._guarded(self._start(kind))
        if kind == "up" and not self.applier.stopped:
            await self._run_program()

    async def _start(self, kind: RunKind) -> None:
        """Settle creates of an interrupted run, read the state, and do everything that needs no program."""
        await settle_creates(self.applier)
        self.applier.known.olds = {old.urn: old for old in self.journal.left if not old.delete}
        match kind:
            case "destroy":
                self._refuse_missing_targets()
                await remove_everything(self.applier)
            case "refresh":
                self._refuse_missing_targets()
                await refresh(self.applier)
            case "import":
                await self._registrar.import_by_hand(self.options.imports)

    async def _run_program(self) -> None:
        """Run the program; after its success, delete resources that it did not register."""
        taker = Registrations(
            register=lambda request: self._answer(self._register(request)),
            register_outputs=lambda request: self._answer(self._register_outputs(request)),
            refuse=lambda what, where: self._stop_with(UnsupportedByEmbeddedError(what, where)),
        )
        host = ProgramHost(self.journal.ref, taker, self.events, self.parallel, self.dry, self.options.config)
        ended = host.start(self.options.program)
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            await asyncio.shield(self._wind_down())
            await asyncio.wait({ended}, timeout=END_LIMIT_S)
            raise
        except Exception as error:  # noqa: BLE001  the program is the caller's code and may raise anything
            if not self.applier.stopped:
                self._stop_with(error)
        await self._settle()
        if not self.applier.stopped:
            await self._guarded(self._remove_unwanted())

    async def _remove_unwanted(self) -> None:
        self._refuse_missing_targets()
        await remove_unwanted(self.applier)

    def _refuse_missing_targets(self) -> None:
        known = self.applier.known
        for urn in sorted({*self.options.targets} - known.olds.keys() - known.news.keys()):
            self.applier.fail(
                "", f"Target '{urn}' could not be found in the stack. Did you forget to escape $ in your shell?"
            )

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await self._tracked(work)
        except asyncio.CancelledError:
            await asyncio.shield(self._wind_down())
            raise
        except StopRunError:
            pass
        except HermesError as error:
            self.verdict = error
            self.applier.stopped = True

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that continues when its caller is cancelled; :meth:`_settle` waits for its end."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def _wind_down(self) -> None:
        """Begin nothing new, ask the providers to stop, and wait for the calls in flight."""
        self.applier.stopped = True
        await self.providers.cancel()
        await self._settle()

    async def _settle(self) -> None:
        """Wait for running steps, within a limit."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=END_LIMIT_S)

    def _stop_with(self, error: Exception) -> None:
        self.verdict = self.verdict or error
        self.applier.stopped = True

    async def _answer(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await self._tracked(work)
        except StopRunError:
            raise StoppedError from None
        except Exception as error:
            self._stop_with(error)
            raise StoppedError from error

    async def _register(self, request: Message) -> Message:
        self.applier.check_running()
        goal = goal_of(self.journal.ref, request)
        new = await self._registrar.register(goal)
        return resource_pb2.RegisterResourceResponse(
            urn=new.urn,
            id="" if is_unknown(new.id) and not urns.is_provider(new.type) else new.id,
            object=to_wire(new.outputs if goal.custom else new.inputs, self.journal.vault, secrets=True),
            unknown=new.urn in self.applier.known.skipped,
        )

    async def _register_outputs(self, request: Message) -> None:
        self.applier.check_running()
        self._registrar.register_outputs(request.urn, from_wire(request.outputs))

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of successful steps by kind, as the CLI counts them."""
        counted = Counter(
            str(step.op)
            for step, _ in self.applier.finished
            if step.op in COUNTED and not urns.is_default_provider(step.urn)
        )
        return dict(sorted(counted.items()))

    @property
    def changed_nothing(self) -> bool:
        """Return whether every step so far left its resource unchanged, the stack's outputs included."""
        if stuck_in(self.before):
            return False
        ops = {step.op for step, _ in self.applier.finished}
        before = {old.urn: old.outputs for old in self.before.resources if not old.custom}
        after = {new.urn: new.outputs for new in self.journal.resources if not new.custom}
        return ops <= {Op.SAME} and before == after

    def stack_outputs(self) -> Mapping[str, Any]:
        """Return the outputs that the program exported."""
        root = self.applier.known.news.get(urns.stack_urn(self.journal.ref))
        return root.outputs if root else {}

    def changes(self) -> tuple[Change, ...]:
        """List the changes, or expected ones, without default providers, which are invisible."""
        return tuple(
            Change(
                kind=ChangeKind(step.op),
                urn=step.urn,
                type=urns.type_of(step.urn),
                name=urns.name_of(step.urn),
                id=resource_id,
                properties=step.keys or step.diffs,
            )
            for step, resource_id in self.applier.finished
            if step.op in COUNTED and step.op is not Op.SAME and not urns.is_default_provider(step.urn)
        )

    def error(self, what: str) -> Exception | None:
        """Choose the error that the run ends with; None when it ended well."""
        # Components and the stack itself exist only in the state: what counts is what a provider did.
        changed = tuple(change for change in self.changes() if change.id and not self.dry)
        ref, faults = self.journal.ref, self.applier.faults
        if self.verdict is not None:
            if isinstance(self.verdict, HermesError):
                return stopped(self.verdict, what, ref, changed)
            return self.verdict
        if not self.applier.failures:
            return None
        message = f"{what} of stack {ref.stack} failed: {self._failures()}"
        if not self.dry and any(f.code == "DEADLINE_EXCEEDED" or f.message == DIED for f in faults):
            return UnknownOutcomeError(message, hint=REPEAT)
        if changed:
            return PartlyDoneError(
                f"{message}; done before: {listed(changed)}", hint="fix that, then run the same command again"
            )
        if not self.dry and any(fault.half_made for fault in faults):
            return PartlyDoneError(message, hint="run the same command again: it continues with partly made resources")
        if any(fault.code == "UNAVAILABLE" for fault in faults):
            return UnavailableError(message, hint="run the same command again")
        return RefusedError(message, hint="fix that, then run the same command again")

    def _failures(self) -> str:
        errors = self.applier.failures
        first = errors[0]
        about = f"{urns.name_of(first.urn)} ({urns.type_of(first.urn)}): " if first.urn else ""
        more = len({error.urn for error in errors}) - 1
        return about + " ".join(first.message.split()) + (f" (and {more} more)" if more else "")
