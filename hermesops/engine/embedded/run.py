"""One run over one stack: the program's registrations, then what is not wanted any more, then the record of it."""

import asyncio
import time
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from hermesops.engine.embedded import urns
from hermesops.engine.embedded.apply import Applier, Halt, StopRunError
from hermesops.engine.embedded.events import COUNTED, EventLog, Op
from hermesops.engine.embedded.goal import goal_of
from hermesops.engine.embedded.guard import guarded, refuse_unnamed
from hermesops.engine.embedded.journal import Journal
from hermesops.engine.embedded.kinds import Message
from hermesops.engine.embedded.monitor import EngineLog, Monitor, StoppedError
from hermesops.engine.embedded.program import start_program
from hermesops.engine.embedded.providers import Providers
from hermesops.engine.embedded.register import Registrar
from hermesops.engine.embedded.removal import Removal
from hermesops.engine.embedded.rpc import ProviderFaultError
from hermesops.engine.embedded.state import Deployment, Operation, Resource
from hermesops.engine.embedded.unsupported import UnsupportedByEmbeddedError
from hermesops.engine.embedded.values import from_wire, is_unknown, to_wire
from hermesops.engine.interface import MayDestroy, Program, StackConfig
from hermesops.errors import HermesError, RefusedError

T = TypeVar("T")

END_LIMIT_S = 60.0
"""How long a stopped run waits for what its providers are doing; after that the state says it is unfinished."""


@dataclass
class Run:
    """One run.

    Attributes:
        may_destroy: Whom the caller allows to be destroyed; None allows everything.
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
    verdict: Exception | None = None
    started: float = field(default_factory=time.time)

    def __post_init__(self) -> None:
        self.halt = Halt()
        self.applier = Applier(self.journal, self.events, self.halt, asyncio.Semaphore(self.parallel), self.dry)
        self.registrar = Registrar(
            self.journal.ref,
            olds=self.before.resources,
            applier=self.applier,
            providers=self.providers,
            config=self.config,
            may_destroy=self.may_destroy,
        )
        self._under_way: set[asyncio.Task[Any]] = set()

    async def program(self, program: Program) -> None:
        """Run the program and, when it ended well, delete what it did not want."""
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

    async def destroy(self) -> None:
        """Delete everything that the state holds."""
        await self._guarded(self._remove_all())

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.shield(self.wind_down())
            raise
        except StopRunError:
            pass
        except HermesError as error:
            self.verdict = error
            self.halt.stopped = True

    async def wind_down(self) -> None:
        """Begin nothing new, ask the providers to stop, and wait until what they do has ended."""
        self.halt.stopped = True
        await self.providers.cancel()
        await self.settle()

    async def settle(self) -> None:
        """Wait for what is under way, within a limit."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=END_LIMIT_S)

    async def _remove_unwanted(self) -> None:
        self._drop_deleted_already()
        await self._adopt_unconfirmed()
        victims = list(self.journal.left)
        refuse_unnamed((v for v in victims if not v.delete), self.may_destroy)
        await Removal(self.applier, self.providers).remove(victims)

    async def _remove_all(self) -> None:
        self._drop_deleted_already()
        await self._adopt_unconfirmed()
        victims = self.journal.resources
        refuse_unnamed(victims, self.may_destroy)
        await Removal(self.applier, self.providers).remove(victims)

    def _drop_deleted_already(self) -> None:
        for entry in [r for r in self.journal.left if r.pending_replacement]:
            self.journal.move(entry, None)

    async def _adopt_unconfirmed(self) -> None:
        """Take in what an interrupted run may have made and nobody wants any more, so that it can be deleted."""
        for operation in list(self.journal.pending):
            old = operation.resource
            if not guarded(old) or self.registrar.knows(old.urn):
                # What no provider made cannot be lost; and where the state has the thing, a provider that finds
                # things by their names has not made a second one.
                self.journal.pending.remove(operation)
                continue
            refuse_unnamed([old], self.may_destroy)
            name = urns.name_of(old.urn)
            self.events.warning(f"an interrupted run may have made {name}; finding it by its name", old.urn)
            if self.dry:
                self.journal.pending.remove(operation)
                continue
            await self._adopt(operation)

    async def _adopt(self, operation: Operation) -> None:
        old = operation.resource
        try:
            provider = await self.providers.of_state(old.provider, self.journal.resources)
            resource_id, outputs = await provider.create(old.urn, old.inputs, preview=False)
        except ProviderFaultError as fault:
            self.halt.faults.append(fault)
            self.applier.fail(old.urn, fault.message)
        self.journal.left.append(replace(old, id=resource_id, outputs=outputs))
        self.journal.end(operation)

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
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
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
        known = goal.properties if not goal.custom else new.outputs
        return resource_pb2.RegisterResourceResponse(
            urn=new.urn,
            id="" if is_unknown(new.id) and not urns.is_provider(new.type) else new.id,
            object=to_wire(known, self.journal.vault, secrets=True),
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
        if any(guarded(operation.resource) for operation in self.before.pending):
            return False
        ops = {step.op for step, _ in self.applier.finished}
        before = {old.urn: old.outputs for old in self.before.resources if not old.custom}
        after = {new.urn: new.outputs for new in self.journal.resources if not new.custom}
        return ops <= {Op.SAME} and before == after

    def stack_outputs(self) -> Mapping[str, Any]:
        """What the program exported."""
        return self.registrar.outputs_of(urns.stack_urn(self.journal.ref))


def refuse_unresolved(before: Deployment, adopting: frozenset[str]) -> None:
    """Refuse to go on over creates that were begun, never confirmed, and cannot be looked up by name.

    Raises:
        RefusedError: There are such creates.
    """
    stuck = [
        op.resource
        for op in before.pending
        if op.kind == "creating" and guarded(op.resource) and urns.package_of(op.resource.type) not in adopting
    ]
    if stuck:
        names = ", ".join(_named(resource) for resource in stuck)
        raise RefusedError(
            f"an interrupted run began to create {names} and it is not known whether they exist",
            hint="look for them, then run `pulumi refresh --clear-pending-creates` with the CLI",
        )


def _named(resource: Resource) -> str:
    return f"{urns.name_of(resource.urn)} ({resource.type})"
