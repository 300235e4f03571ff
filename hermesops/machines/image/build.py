"""Builds an image: machine, roles and meanwhile the release, slot, clean, save, boot again, prove, record.

An image without an agent has neither release nor slot, and its own script alone proves it.

The vendor's list is its only state between steps: a killed build is started again and finds, by name, the machine or
the image that it had reached. The caller holds the lease on building in the environment.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from hermesops.base.waiting import Pending, both, until
from hermesops.errors import HaltedError, Hint, RefusedError, UnavailableError, UnknownOutcomeError, UsageError
from hermesops.machines.image import manifest as manifests
from hermesops.machines.image.definition import AgentPins, Definition, digest_of
from hermesops.machines.image.machine_facts import Survey, survey
from hermesops.machines.image.machines import BuildNames, ChannelTo, Reporter, borrowed, names_of, sweep
from hermesops.machines.image.manifest import Manifest
from hermesops.machines.image.progress import STEPS, BuildProgress
from hermesops.model.ids import ImageId, MachineId
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor import justavps
from hermesops.vendor.channel import Completed, last_words
from hermesops.vendor.justavps.errors import NotFoundError
from hermesops.wire.documents.lock import Lock
from hermesops.wire.foreign_text import one_line

_SCRIPT_S = 300.0
_ANSWERED_S = 120.0
"""Seconds beyond its own limit for a script's input and output to be transferred."""

_VERIFIED_S = 900.0
_SAVED_S = 3600.0
"""Saving took tens of minutes at the vendor."""

_NAMED = 20
"""Failed checks that an error names."""

_PROVED = 42
_BROKEN = 43


@dataclass(frozen=True)
class Recipe:
    """Inputs and settings of an image's build in one environment.

    Attributes:
        inputs: SHA-256 of everything it depends on; see ``hermesops.machines.image.definition.inputs_of``.
        environment: Name of the environment; part of the machines' names.
        server_type: Size of the machines; the smallest, since an image boots on no smaller disk than it came from.
        variables: Extra variables of the roles; no secrets.
        versions: Of what builds it, for the manifest.
        note: What is said when it is made; empty for nothing.
        release: The release that its machines run at first; ``None`` for the one that is built of the image's locks.
    """

    definition: Definition
    inputs: Mapping[str, str]
    environment: str
    server_type: str
    region: str
    variables: Mapping[str, object] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    release: ReleaseId | None = None

    def with_release(self, lock: Lock) -> "Recipe":
        """The recipe of an image whose machines run another release at first; the release is one of its inputs.

        Raises:
            UsageError: Its image has no agent.
        """
        name = self.definition.name
        if self.definition.agent is None:
            raise UsageError(f"image {name} has no agent", hint=Hint(("image", "build", name)))
        return replace(self, inputs={**self.inputs, "release": lock.digest}, release=ReleaseId(lock.id))

    @property
    def digest(self) -> str:
        """SHA-256 over the digests of all inputs, by which an equal image is recognised."""
        return digest_of(self.inputs)

    @property
    def names(self) -> BuildNames:
        """Names of the image and of the build's machines."""
        return names_of(self.environment, self.definition.name, self.digest)


@dataclass(frozen=True)
class Built:
    """An image that passed its checks.

    Attributes:
        made: Whether this build made it; otherwise it was there, from the same inputs.
    """

    manifest: Manifest
    made: bool


@dataclass(frozen=True)
class Builder:
    """Builds images with injected clients.

    Attributes:
        converge: Applies a playbook, named by its file, to a machine with extra variables.
        refuse_unsigned: Refuses where nobody signs releases.
        release: Makes sure that the release of an image's agent is in the store; its id.
        install: Installs a release on a machine of a Python (``3.11``), which runs it from then on.
        verify: Checks an agent's machine without a user; what is not as specified, one line each.
    """

    vendor: justavps.Client
    channel_to: ChannelTo
    converge: Callable[[MachineId, str, Mapping[str, object]], Awaitable[None]]
    refuse_unsigned: Callable[[], object]
    release: Callable[[AgentPins], Awaitable[ReleaseId]]
    install: Callable[[MachineId, ReleaseId, str], Awaitable[None]]
    verify: Callable[[MachineId], Awaitable[Sequence[str]]]
    manifests: Path
    report: Reporter

    @property
    def _images(self) -> "SavedImages":
        return SavedImages(self.vendor, self.report)

    async def build(self, recipe: Recipe, *, again: str = "") -> Built:
        """Make a proved image of these inputs at the vendor, unless there is one. No machine is left behind.

        Args:
            again: Suffix of the name of a new image although nothing has changed; empty otherwise.

        Raises:
            HaltedError: The image did not pass its checks; it was deleted.
            RefusedError: The vendor refused, a hash differs, or a role failed.
            UnavailableError: Something did not answer in time: safe to repeat.
            UnknownOutcomeError: An order's answer was lost: the same command checks first whether it was done.
        """
        known = manifests.find(self.manifests, recipe.definition.name, recipe.digest)
        if known and not again and await self._images.is_bootable(known.image_id):
            return Built(known, made=False)
        clock = Stopwatch()
        names = recipe.names
        image_name = f"{names.image}-{again}" if again else names.image
        image, source = await self._images.find(image_name), None
        # A builder that is saved already is not needed any more, and nothing else would delete it.
        keep = {names.proof} if image else {names.builder, names.proof}
        await sweep(self.vendor, recipe.environment, keep, self.report)
        if image is None:
            image, source = await self._make(recipe, image_name, clock)
        proof = await self._prove(recipe, image, source, clock)
        manifest = Manifest(
            name=recipe.definition.name,
            image_id=ImageId(image.id),
            digest=recipe.digest,
            created_at=datetime.now(UTC),
            base=proof.base(),
            inputs=recipe.inputs,
            packages={"debian": proof.debian} | ({"agent": proof.agent} if recipe.definition.agent else {}),
            versions={**recipe.versions, **_versions(recipe, proof), "python": proof.python},
            seconds=clock.seconds,
        )
        manifests.write(manifest, self.manifests)
        return Built(manifest, made=True)

    async def _make(self, recipe: Recipe, image_name: str, clock: "Stopwatch") -> tuple[justavps.Image, Survey | None]:
        progress = self._progress(recipe)
        order = justavps.MachineOrder(name=recipe.names.builder, server_type=recipe.server_type, region=recipe.region)
        if recipe.definition.agent:
            self.refuse_unsigned()
        if recipe.note:
            self.report(recipe.note)
        progress.begin("machine", f"renting {order.name}")
        async with borrowed(self.vendor, self.channel_to, order, report=self.report) as machine_id:
            source = await survey(self.channel_to(machine_id))
            clock.lap("machine")
            progress.begin("roles", f"applying {recipe.definition.playbook} on {source.distribution} {source.version}")
            release = await self._converged(machine_id, recipe)
            clock.lap("roles")
            if release:
                progress.begin("slot", f"installing release {release}")
                await self.install(machine_id, release, source.python)
                clock.lap("slot")
            for name, script in (("prepare", recipe.definition.prepare), ("clean", recipe.definition.clean)):
                progress.begin(name, f"running the script {name}")
                done = await self._run(machine_id, name, script)
                if done.exit_code != 0:
                    raise RefusedError(
                        f"the script {name} failed on the builder with exit {done.exit_code}: {last_words(done)}"
                    )
                clock.lap(name)
            progress.begin("save", f"saving image {image_name}")
            image = await self._images.save(machine_id, image_name)
            clock.lap("save")
        return image, source

    def _progress(self, recipe: Recipe) -> BuildProgress:
        name = recipe.definition.name
        steps = tuple(step for step in STEPS if step != "slot" or recipe.definition.agent)
        return BuildProgress(name, steps, manifests.last_seconds(self.manifests, name), self.report)

    async def _converged(self, machine_id: MachineId, recipe: Recipe) -> ReleaseId | None:
        """Apply the roles and fetch the release's packages meanwhile; the release, where the image has an agent."""
        roles = self.converge(machine_id, recipe.definition.playbook, recipe.variables)
        if recipe.definition.agent is None:
            await roles
            return None
        if recipe.release:
            await roles
            return recipe.release
        release, _ = await both(self.release(recipe.definition.agent), roles)
        return release

    async def _run(self, machine_id: MachineId, name: str, script: Sequence[Path]) -> Completed:
        content = b"".join([await asyncio.to_thread(file.read_bytes) for file in script])
        run = partial(self.channel_to(machine_id).run, "exec sh -s", stdin=content, timeout_s=_SCRIPT_S)
        return await until(run, what=f"the script {name} to end", timeout_s=_SCRIPT_S + _ANSWERED_S)

    async def _prove(self, recipe: Recipe, image: justavps.Image, source: Survey | None, clock: "Stopwatch") -> Survey:
        progress = self._progress(recipe)
        order = justavps.MachineOrder(
            name=recipe.names.proof,
            server_type=recipe.server_type,
            region=recipe.region,
            image_id=image.id,
        )
        progress.begin("boot", f"booting {order.name} from the image")
        async with borrowed(self.vendor, self.channel_to, order, report=self.report) as machine_id:
            proof = await survey(self.channel_to(machine_id))
            clock.lap("boot")
            progress.begin("prove", "running its checks")
            broken = await self._broken(recipe, machine_id)
            clock.lap("prove")
        if source and source.machine_id == proof.machine_id:
            broken.append("its machine-id is the builder's")
        if broken:
            more = f"; and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
            await self.vendor.delete_image(image.id)
            raise HaltedError(
                f"image {image.name} failed its checks and was deleted: {'; '.join(broken[:_NAMED])}{more}",
                hint=f"correct the roles or {recipe.definition.clean[0]}, then build again",
            )
        return proof

    async def _broken(self, recipe: Recipe, machine_id: MachineId) -> list[str]:
        done = await self._run(machine_id, "prove", recipe.definition.prove)
        if done.exit_code not in {_PROVED, _BROKEN}:
            raise UnavailableError(f"the script prove ended with {done.exit_code} and without a verdict: build again")
        lines = (line for line in done.text.splitlines() if line.startswith("broken "))
        broken = [one_line(line.removeprefix("broken ")) for line in lines]
        if recipe.definition.agent is None:
            return broken
        verify = partial(self.verify, machine_id)
        return broken + list(await until(verify, what="the machine to be verified", timeout_s=_VERIFIED_S))


def _versions(recipe: Recipe, proof: Survey) -> dict[str, str]:
    """Of the agent and its release, where the image has one."""
    if recipe.definition.agent is None:
        return {}
    return {"hermes-agent": proof.agent.get("hermes_agent", ""), "release": proof.release}


@dataclass(frozen=True)
class SavedImages:
    """The account's images that builds make."""

    vendor: justavps.Client
    report: Reporter

    async def save(self, machine_id: MachineId, name: str) -> justavps.Image:
        """Save a machine's disk and return once machines can boot from it.

        Raises:
            RefusedError: The vendor could not save it.
            UnknownOutcomeError: The order's answer was lost, and no image of that name is listed.
        """
        try:
            image = await self.vendor.save_image(machine_id, name=name)
        except UnknownOutcomeError:
            # Asking again could save it twice. Only we use such names, so an image of that name is the one.
            image_of_name = await self._named(name)
            if image_of_name is None:
                raise
            image = image_of_name
        return await self._awaited(image)

    async def find(self, name: str) -> justavps.Image | None:
        """The image that a killed build was saving, once machines can boot from it; one that failed is deleted."""
        image = await self._named(name)
        if image is None:
            return None
        if image.status is justavps.ImageStatus.FAILED:
            await self.vendor.delete_image(image.id)
            return None
        self.report(f"image {name} was saved by an earlier build")
        return await self._awaited(image)

    async def _named(self, name: str) -> justavps.Image | None:
        return next((image for image in await self.vendor.list_images() if image.name == name), None)

    async def _awaited(self, image: justavps.Image) -> justavps.Image:
        async def bootable() -> justavps.Image | Pending[justavps.Image]:
            try:
                saved = await self.vendor.get_image(image.id)
            except UnavailableError as error:
                return Pending(str(error))
            if saved.status in {justavps.ImageStatus.FAILED, justavps.ImageStatus.DELETED}:
                raise RefusedError(
                    f"JustAVPS could not save image {image.name}: {saved.description or saved.status}",
                    hint="run the same command again",
                )
            return saved if saved.bootable else Pending(str(saved.status))

        return await until(bootable, what=f"image {image.name}", timeout_s=_SAVED_S, every_s=0.5, report=self.report)

    async def is_bootable(self, image_id: ImageId) -> bool:
        """Whether the vendor still has it and machines can boot from it."""
        try:
            return (await self.vendor.get_image(image_id)).bootable
        except NotFoundError:
            return False


@dataclass
class Stopwatch:
    """Measures the duration of each step, in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """Record the time since the last step as that of the one that ended."""
        now = time.monotonic()
        self.seconds[name] = round(now - self.since, 2)
        self.since = now
