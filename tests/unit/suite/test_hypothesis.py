"""What holds for every property that hypothesis tries."""

from hypothesis import settings


def test_no_example_fails_for_taking_long() -> None:
    assert settings().deadline is None
    assert settings(max_examples=2).deadline is None
