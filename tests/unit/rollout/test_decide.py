"""Whole rollouts, told in text. After a change, ``python -m tests.support.rollout_tales`` rewrites them."""

import pytest

from tests.support.rollout_tales import FOLDER, TALES, tell


@pytest.mark.parametrize("name", TALES)
def test_a_rollout_goes_as_it_is_told(name: str) -> None:
    assert tell(TALES[name]()) == (FOLDER / f"{name}.txt").read_text()
