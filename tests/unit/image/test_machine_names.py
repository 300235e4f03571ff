import pytest

from hermesops.image.machines import is_build_machine, names_of


def test_names_follow_from_the_inputs_alone() -> None:
    names = names_of("my-env", "hermes-base", "0123456789abcdef")
    assert names.builder == "hermes-myenv-build-0123456789ab"
    assert names.proof == "hermes-myenv-proof-0123456789ab"
    assert names.image == "hermes-base-0123456789ab"


@pytest.mark.parametrize(
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
