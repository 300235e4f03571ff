"""One run over one stack: the program's registrations, then what is not wanted any more, then the record of it."""

import asyncio
import time
from collections import Counter
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hermesops.engine.embedded.plugins.provider_pool import Providers
from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.protocol.goal import goal_of
from hermesops.engine.embedded.protocol.monitor import EngineLog, Monitor, StoppedError
from hermesops.engine.embedded.protocol.opaque import Message
from hermesops.engine.embedded.protocol.values import from_wire, is_unknown, to_wire
from hermesops.engine.embedded.run.events import COUNTED, EventLog, Op
from hermesops.engine.embedded.run.program import start_program
from hermesops.engine.embedded.run.progress import Known
from hermesops.engine.embedded.run.resources.apply import Applier, Halt, StopRunError
from hermesops.engine.embedded.run.resources.interrupted_creates import Unconfirmed, stuck_in
from hermesops.engine.embedded.run.resources.manual_imports import TakingIn
from hermesops.engine.embedded.run.resources.refresh import Refresh
from hermesops.engine.embedded.run.resources.register import Registrar
from hermesops.engine.embedded.run.resources.removal import Removal
from hermesops.engine.embedded.run.targets import missing
from hermesops.engine.embedded.state.deployment import Deployment
from hermesops.engine.embedded.state.journal import Journal
from hermesops.engine.embedded.unsupported import UnsupportedByEmbeddedError
from hermesops.engine.interface import MayDestroy, Program, StackConfig
from hermesops.errors import HermesError
from hermesops.model.stack import Import

T = TypeVar("T")

END_LIMIT_S = 60.0
"""How long a stopped run waits for what its providers are doing; after that the state says it is unfinished."""


@dataclass
class Run:
    """One run.

    Attributes:
        may_destroy: Whom the caller allows to be destroyed; None allows everything.
        targets: URNs that may be touched; empty for all.
        verdict: The error that the run ends with, when it is ours and not a provider's.
    """

    journal: Journal
    before: Deployment
    events: EventLog
    providers: Providers
    parallel: int
    dry: bool
    config: StackConfig = field(default_factory=lambda: StackConfig({}))
    may_destroy: MayDestroy | None = None
    targets: Collection[str] = ()
    verdict: Exception | None = None
    started: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.halt = Halt()
        self.applier = Applier(self.journal, self.events, self.halt, asyncio.Semaphore(self.parallel), self.dry)
        self.known = Known()
        self.registrar = Registrar(
            self.journal.ref,
            known=self.known,
            applier=self.applier,
            providers=self.providers,
            config=self.config,
            may_destroy=self.may_destroy,
            targets=self.targets,
        )
        self._under_way: set[asyncio.Task[Any]] = set()

    async def program(self, program: Program) -> None:
        """Run the program and, when it ended well, delete what it did not want."""
        await self.settle_creates()
        if self.halt.stopped:
            return
        loop = asyncio.get_running_loop()
        ref = self.journal.ref
        about = {
            "project": ref.project,
            "stack": ref.stack,
            "organization": "organization",
            "dryRun": self.dry,
            "parallel": self.parallel,
            "config": dict(self.config.values),
            "configSecretKeys": sorted(self.config.secret),
        }
        ended = start_program(
            program,
            ref=ref,
            monitor=Monitor(self, loop, about),
            engine=EngineLog(self.events, loop),
            parallel=self.parallel,
            dry=self.dry,
            config=self.config,
        )
        try:
            await asyncio.shield(ended)
        except asyncio.CancelledError:
            await asyncio.shield(self.wind_down())
            await asyncio.wait({ended}, timeout=END_LIMIT_S)
            raise
        except Exception as error:  # noqa: BLE001  the program is the caller's code and may raise anything
            if not self.halt.stopped:
                self.verdict = self.verdict or error
                self.halt.stopped = True
        await self.settle()
        if not self.halt.stopped:
            await self._guarded(self._remove_unwanted())

    async def settle_creates(self) -> None:
        """Only look up what an interrupted run had begun to create."""
        await self._guarded(self._start())

    async def destroy(self) -> None:
        """Delete everything that the state holds, or the targets."""
        await self._guarded(self._remove_all())

    async def refresh(self) -> None:
        """Bring the state to what is there."""
        await self._guarded(self._refresh())

    async def _refresh(self) -> None:
        await self._start()
        self._refuse_missing()
        await Refresh(self.applier, self.providers, self.targets).run()

    async def take_in(self, wanted: Sequence[Import]) -> None:
        """Import things by hand."""
        await self._guarded(self._take_in(wanted))

    async def _take_in(self, wanted: Sequence[Import]) -> None:
        await self._start()
        await TakingIn(self.journal.ref, self.known, self.applier, self.providers, self.registrar).take(wanted)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await self._tracked(work)
        except asyncio.CancelledError:
            await asyncio.shield(self.wind_down())
            raise
        except StopRunError:
            pass
        except HermesError as error:
            self.verdict = error
            self.halt.stopped = True

    async def _tracked(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what goes on when whoever waits for it is cancelled; :meth:`settle` waits for its end."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(task)

    async def wind_down(self) -> None:
        """Begin nothing new, ask the providers to stop, and wait until what they do has ended."""
        self.halt.stopped = True
        await self.providers.cancel()
        await self.settle()

    async def settle(self) -> None:
        """Wait for what is under way, within a limit."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=END_LIMIT_S)

    async def _start(self) -> None:
        """Settle what an interrupted run left, and take the state as it is then."""
        await Unconfirmed(self.applier, self.providers).settle()
        self.known.begin(self.journal.left)

    async def _remove_unwanted(self) -> None:
        self._refuse_missing()
        await self._removal().unwanted()

    async def _remove_all(self) -> None:
        await self._start()
        self._refuse_missing()
        await self._removal().everything()

    def _removal(self) -> Removal:
        return Removal(self.applier, self.providers, may_destroy=self.may_destroy, targets=self.targets)

    def _refuse_missing(self) -> None:
        there = {*self.known.olds, *self.known.news}
        for urn in sorted(set(self.targets) - there):
            self.applier.fail("", missing(urn))

    async def register(self, request: Message) -> Message:
        """Bring about one registration of the program; see Registrations."""
        return await self._answer(self._register(request))

    async def register_outputs(self, request: Message) -> None:
        """Store outputs; see Registrations."""
        await self._answer(self._register_outputs(request))

    def refuse(self, what: str, where: str) -> None:
        """Note that the program asked for something that this engine does not do."""
        self.verdict = self.verdict or UnsupportedByEmbeddedError(what, where)
        self.halt.stopped = True

    async def _answer(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return await self._tracked(work)
        except StopRunError:
            raise StoppedError from None
        except Exception as error:
            self.verdict = self.verdict or error
            self.halt.stopped = True
            raise StoppedError from error

    async def _register(self, request: Message) -> Message:
        from pulumi.runtime.proto import resource_pb2  # noqa: PLC0415  loads the SDK

        self.halt.check()
        goal = goal_of(self.journal.ref, request)
        new = await self.registrar.register(goal)
        known = new.inputs if not goal.custom else new.outputs
        return resource_pb2.RegisterResourceResponse(
            urn=new.urn,
            id="" if is_unknown(new.id) and not urns.is_provider(new.type) else new.id,
            object=to_wire(known, self.journal.vault, secrets=True),
            unknown=new.urn in self.known.skipped,
        )

    async def _register_outputs(self, request: Message) -> None:
        if self.halt.stopped:
            raise StopRunError
        self.registrar.register_outputs(request.urn, from_wire(request.outputs))

    @property
    def counts(self) -> dict[str, int]:
        """How many resources each kind of step ended well for, as the CLI counts them."""
        counted = Counter(
            str(step.op)
            for step, _ in self.applier.finished
            if step.op in COUNTED and not urns.is_default_provider(step.urn)
        )
        return dict(sorted(counted.items()))

    @property
    def changed_nothing(self) -> bool:
        """Whether every step so far left its resource as it was, the stack's outputs included."""
        if stuck_in(self.before):
            return False
        ops = {step.op for step, _ in self.applier.finished}
        before = {old.urn: old.outputs for old in self.before.resources if not old.custom}
        after = {new.urn: new.outputs for new in self.journal.resources if not new.custom}
        return ops <= {Op.SAME} and before == after

    def stack_outputs(self) -> Mapping[str, Any]:
        """What the program exported."""
        root = self.known.news.get(urns.stack_urn(self.journal.ref))
        return root.outputs if root else {}
