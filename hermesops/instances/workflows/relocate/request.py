"""What was asked of a relocation, as its operation's row keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.instances.workflows.relocate.decide import Plan
from hermesops.model.ids import CellName, ImageId, MachineName
from hermesops.model.plan import Plan as UserPlan
from hermesops.model.spare import Spare


@dataclass(frozen=True)
class RelocationRequest:
    """What was asked; the intent of the operation's row, so that whoever continues it knows as much.

    Attributes:
        why: What the copy of the old machine is made for.
        origin: The machine the instance was on then.
        cell: Of the new machine; opened, for ``only_plan`` or every plan, where it is new.
        plan: The user's from then on.
        image_id: What the new machine boots from.
        snapshot: The backup to put on it; empty for what is on the old machine.
        keeps_former: Whether the old machine stays for a while.
    """

    why: str
    origin: MachineName
    cell: CellName
    region: str
    plan: UserPlan
    server_type: str
    image_id: ImageId | None
    only_plan: UserPlan | None = None
    snapshot: str = ""
    keeps_former: bool = False

    def fits(self, spare: Spare) -> bool:
        """Whether a machine that was ordered is of the place, size and image that this asks for."""
        ordered = (spare.cell, spare.plan, spare.server_type, spare.image_id)
        return ordered == (self.cell, self.plan, self.server_type, self.image_id)

    def asks_the_same(self, other: "RelocationRequest", *fields: str) -> bool:
        """Whether another one asks for the same, as far as an operator says what: region, plan, whether to restore.

        Args:
            other: It.
            fields: What else was said, by name. The rest is chosen, and may be chosen otherwise the next time.
        """
        said = ("region", "plan", *fields)
        return bool(self.snapshot) == bool(other.snapshot) and all(
            getattr(self, name) == getattr(other, name) for name in said
        )

    def to_intent(self) -> dict[str, object]:
        """As the row keeps it; what it is copied for is named after the row itself."""
        return {name: value for name, value in vars(self).items() if name != "why"}

    @classmethod
    def from_intent(cls, intent: Mapping[str, object], *, why: str) -> "RelocationRequest":
        """As it was asked."""
        image, only = intent["image_id"], intent["only_plan"]
        return cls(
            why,
            MachineName(str(intent["origin"])),
            CellName(str(intent["cell"])),
            str(intent["region"]),
            UserPlan(str(intent["plan"])),
            str(intent["server_type"]),
            ImageId(str(image)) if image else None,
            UserPlan(str(only)) if only else None,
            str(intent["snapshot"]),
            keeps_former=bool(intent["keeps_former"]),
        )

    @property
    def as_decided(self) -> Plan:
        """As far as the next step depends on it."""
        return Plan(self.origin, bool(self.snapshot), self.keeps_former)
