import pytest

from hermesops.infra.engine.embedded.protocol import urns
from hermesops.model.stack import StackRef

REF = StackRef("rec", "dev")
STACK = "urn:pulumi:dev::rec::pulumi:pulumi:Stack::rec-dev"


@pytest.mark.parametrize(
    ("parent", "expected"),
    [
        ("", "urn:pulumi:dev::rec::a:b:C::n"),
        (STACK, "urn:pulumi:dev::rec::a:b:C::n"),
        ("urn:pulumi:dev::rec::x:y:Z::p", "urn:pulumi:dev::rec::x:y:Z$a:b:C::n"),
        ("urn:pulumi:dev::rec::w:w:W$x:y:Z::p::q", "urn:pulumi:dev::rec::w:w:W$x:y:Z$a:b:C::n"),
    ],
)
def test_a_urn_names_the_types_above(parent: str, expected: str) -> None:
    assert urns.urn_of(REF, "a:b:C", "n", parent) == expected


def test_parts_of_a_urn() -> None:
    urn = "urn:pulumi:dev::rec::x:y:Z$a:b:C::name::with::colons"
    assert urns.type_of(urn) == "a:b:C"
    assert urns.name_of(urn) == "name::with::colons"
    assert urns.stack_urn(REF) == STACK


@pytest.mark.parametrize(
    ("name", "expected"), [("default", True), ("default_0_1_0", True), ("default-mine", False), ("p1", False)]
)
def test_default_providers_are_told_by_their_names(name: str, expected: bool) -> None:  # noqa: FBT001
    assert urns.is_default_provider(f"urn:pulumi:dev::rec::pulumi:providers:justavps::{name}") is expected


def test_packages() -> None:
    assert urns.package_of("justavps:index:Machine") == "justavps"
    assert urns.package_of("pulumi:providers:justavps") == "justavps"


def test_references_come_apart_again() -> None:
    urn = urns.default_provider_urn(REF, "justavps")
    assert urns.split_reference(urns.reference(urn, "an-id")) == (urn, "an-id")
