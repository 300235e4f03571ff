"""Images of a simulated world: machines saved as they are, since simulated machines need no roles.

Nothing is downloaded, applied or proved here; an image of such a world boots nothing but simulated machines.
"""

from hermesops.errors import HaltedError, Hint, Parameter, RefusedError
from hermesops.machines.image.build import Builder, Recipe, Stopwatch
from hermesops.machines.image.machine_facts import Survey
from hermesops.machines.image.machines import borrowed
from hermesops.vendor import justavps
from hermesops.wire.layout import Layout
from hermesops.wire.protocol import PROGRAM

_OF_ONE_MACHINE = " ".join(
    map(str, (Layout().machine_key, Layout().machine_request, Layout().machine_certificate, Layout().authority))
)


class SimulatedBuilder(Builder):
    """Saves images of simulated machines as they are, without Ansible."""

    async def _make(self, recipe: Recipe, image_name: str, clock: Stopwatch) -> tuple[justavps.Image, Survey | None]:
        if recipe.release:
            raise RefusedError(
                "machines of a simulated world come with their own release",
                hint=Hint("build without", Parameter("release")),
            )
        self.report("a simulated world: the image is saved of a machine as it comes, without Ansible")
        order = justavps.MachineOrder(name=recipe.names.builder, server_type=recipe.server_type, region=recipe.region)
        async with borrowed(self.vendor, self.channel_to, order, report=self.report) as machine_id:
            # As clean.sh of a real image does: every machine makes a key of its own.
            await self.channel_to(machine_id).run(f"rm -f {_OF_ONE_MACHINE}")
            clock.lap("machine")
            image = await self._images.save(machine_id, image_name)
            clock.lap("save")
        return image, None

    async def _prove(self, recipe: Recipe, image: justavps.Image, source: Survey | None, clock: Stopwatch) -> Survey:
        del source
        order = justavps.MachineOrder(
            name=recipe.names.proof, server_type=recipe.server_type, region=recipe.region, image_id=image.id
        )
        async with borrowed(self.vendor, self.channel_to, order, report=self.report) as machine_id:
            done = await self.channel_to(machine_id).run(f"{PROGRAM} status")
            machine_key = (await self.channel_to(machine_id).run("cat /etc/machine-id")).text.strip()
            clock.lap("boot")
        if done.exit_code != 0:
            raise HaltedError(
                f"hermes-node does not answer on a machine from image {image.name}: this world is not simulated",
                hint=Hint(("local", "status"), "shows the driver of its machines"),
            )
        return Survey("simulated", "1", "none", "3", machine_key, {}, {}, "")
