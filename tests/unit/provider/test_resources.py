"""What is looked at when the engine asks without an id: the one of that name."""

from dataclasses import dataclass, replace

from hermesops.provider.images import ImageResource, Images
from hermesops.provider.machines import MachineResource, Machines
from hermesops.provider.observation import ObservedImage, ObservedMachine
from hermesops.provider.vendor import JustAvps

MACHINE = ObservedMachine("id-1", "m", "provisioning", region="hel1", server_type="starter", image_id="img")


@dataclass
class Books(JustAvps):
    """A vendor that only answers what it has of a name."""

    machine: ObservedMachine | None = None
    listed: tuple[ObservedImage, ...] = ()

    async def find_machine(self, name: str) -> ObservedMachine | None:
        return self.machine if self.machine and self.machine.name == name else None

    async def find_images(self, name: str) -> list[ObservedImage]:
        return [image for image in self.listed if image.name == name]


def machines(books: Books) -> MachineResource:
    return MachineResource(Machines(lambda: books))


def images(*listed: ObservedImage) -> ImageResource:
    return ImageResource(Images(lambda: Books(listed=listed)))


async def test_a_machine_is_found_by_its_name_alone() -> None:
    assert await machines(Books(MACHINE)).read("", "m") == MACHINE
    assert await machines(Books(MACHINE)).read("", "other") is None
    assert await machines(Books(MACHINE)).read("", "") is None
    assert await machines(Books(replace(MACHINE, status="deleted"))).read("", "m") is None


async def test_an_image_is_found_by_its_name_unless_it_failed() -> None:
    failed = ObservedImage("i-1", "snap", "failed")
    creating = ObservedImage("i-2", "snap", "creating")
    assert await images(failed, creating).read("", "snap") == creating
    assert await images(creating).read("", "other") is None
    assert await images(failed).read("", "snap") is None
