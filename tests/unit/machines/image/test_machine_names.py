from datetime import timedelta

from hermesops.machines.image.machines import is_build_machine, is_build_under_way, names_of
from tests.support.fleets.in_memory import AT, machine_for, ordered
from tests.support.suite.cases import each_case


def test_names_follow_from_the_inputs_alone() -> None:
    names = names_of("my-env", "hermes-base", "0123456789abcdef")
    assert names.builder == "hermes-myenv-build-0123456789ab"
    assert names.proof == "hermes-myenv-proof-0123456789ab"
    assert names.image == "hermes-base-0123456789ab"


@each_case(
    ("name", "ours"),
    [
        ("hermes-local-build-0123456789ab", True),
        ("hermes-local-proof-0123456789ab", True),
        ("hermes-staging-build-0123456789ab", False),
        ("hermes-local-c1-0123456789ab", False),
        ("hermes-local-build-0123456789abc", False),
        ("xhermes-local-build-0123456789ab", False),
    ],
)
def test_only_build_machines_of_the_environment_are_ours_to_remove(name: str, ours: bool) -> None:  # noqa: FBT001 - a table
    assert is_build_machine(name, "local") is ours


def test_a_build_machine_that_is_old_belongs_to_no_build_that_goes_on() -> None:
    machine = machine_for(ordered(0), name="hermes-local-build-0123456789ab", created_at=AT)
    assert is_build_under_way(machine, "local", AT + timedelta(minutes=119))
    assert not is_build_under_way(machine, "local", AT + timedelta(hours=2))
    assert not is_build_under_way(machine_for(ordered(0)), "local", AT)
