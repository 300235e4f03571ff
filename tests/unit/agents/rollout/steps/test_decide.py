"""Whole rollouts, told in text. After a change, ``python -m tests.support.rollouts.transcripts`` rewrites them."""

from tests.support.rollouts.transcripts import FOLDER, TALES, tell
from tests.support.suite.cases import each_case


@each_case("name", TALES)
def test_a_rollout_goes_as_it_is_told(name: str) -> None:
    assert tell(TALES[name]()) == (FOLDER / f"{name}.txt").read_text()
