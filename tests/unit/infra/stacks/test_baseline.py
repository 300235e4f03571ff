"""A baseline names no machine, id, owner or secret, and what is no baseline of this environment is refused."""

from datetime import UTC, datetime

import pulumi
import pytest

from hermesops.errors import UsageError
from hermesops.infra.stacks.baseline import VERSION, Baseline, CellBaseline, kinds_of, of_text, to_text
from hermesops.infra.stacks.dry_run import WITHHELD, Answers, registered_by
from hermesops.infra.stacks.fleet import CellPrograms
from hermesops.infra.stacks.registered import Registered
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName
from hermesops.model.plan import Plan
from hermesops.model.stack import StackRef

CANARIES = ("00000000cafe", "image-canary", "instance-canary")


def machine(number: str, image: str | None = CANARIES[1], plan: Plan | None = Plan.LIGHT) -> CellMachine:
    name, owner = MachineName(f"hermes-production-c1-{number}"), InstanceId(CANARIES[2])
    return CellMachine(name, "starter", "hel1", ImageId(image) if image else None, owner, plan)


SPEC = CellSpec(CellName("c1"), (machine(CANARIES[0]), machine("0000000000aa"), machine("0000000000ab", None, None)))


def baseline() -> Baseline:
    cell = CellBaseline(SPEC.name, kinds_of(SPEC))
    program = CellPrograms({Plan.LIGHT: 40}).program(cell.spec("production"), frozenset())
    resources = registered_by(program, StackRef("fleet", "c1"), Answers())
    return Baseline(
        "production", datetime(2026, 11, 1, tzinfo=UTC), None, (CellBaseline(cell.name, cell.machines, resources),)
    )


def test_rows_are_counted_by_kind_and_nothing_of_them_is_named() -> None:
    text = to_text(baseline())
    assert [canary for canary in CANARIES if canary in text] == []
    assert sorted(map(str, kinds_of(SPEC))) == ["1 x starter in hel1", "2 x starter in hel1, light"]
    (cell,) = of_text(text.encode(), "f", environment="production").cells
    machines = [resource for resource in cell.resources if resource.type == "justavps:index:Machine"]
    assert [(resource.inputs.get("image_id"), resource.inputs.get("data_gb")) for resource in machines] == [
        ("image-1", "40"),
        (None, None),
    ]
    assert all(resource.protect for resource in machines)


def test_what_a_program_marks_as_secret_is_withheld_wherever_it_goes() -> None:
    class Thing(pulumi.CustomResource):
        def __init__(self, name: str, **given: object) -> None:
            super().__init__("test:index:Thing", name, dict(given))

    def program() -> None:
        secret = pulumi.Output.secret("canary-1")
        Thing("a", plain="seen", password=secret, nested={"list": [secret.apply(lambda known: f"x{known}")]})

    (resource,) = registered_by(program, StackRef("p", "s"), Answers())
    assert resource.inputs["plain"] == "seen"
    assert resource.inputs["password"] == WITHHELD
    assert "canary-1" not in str(resource)


def test_it_is_read_as_it_was_written() -> None:
    resource = Registered("aws:s3/bucket:Bucket", "a", "", {"n": 1, "l": ["x", None]}, protect=True, retain=False)
    written = Baseline("staging", datetime(2026, 11, 1, tzinfo=UTC), (resource,), ())
    assert of_text(to_text(written).encode(), "f", environment="staging") == written


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "f is no baseline"),
        (b"[]", "f is no baseline"),
        (b'{"kind": "hermesops-baseline", "version": 1, "baseline": {}}', "f is no baseline: baseline.environment"),
        (b'{"kind": "hermesops-preview", "version": 1, "preview": {}}', "f is no baseline"),
        (b"\xff\xfe", "f is no baseline"),
    ],
)
def test_something_else_is_refused_with_its_place(text: bytes, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        of_text(text, "f", environment="production")
    assert message in refused.value.message


def test_another_version_is_refused() -> None:
    text = to_text(baseline()).replace(f'"version": {VERSION}', f'"version": {VERSION + 1}')
    with pytest.raises(UsageError, match="no baseline of version"):
        of_text(text.encode(), "f", environment="production")


def test_another_environments_is_refused() -> None:
    with pytest.raises(UsageError, match="baseline of environment production, not of staging"):
        of_text(to_text(baseline()).encode(), "f", environment="staging")
