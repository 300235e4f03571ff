"""Every parser of what others send takes ten thousand documents; ``make test`` tries a hundred each."""

import random

import pytest
from rich.console import Console

from tests.support.hostile.parsers import PARSERS, fuzz_all

CASES = 10_000

pytestmark = pytest.mark.timeout(4 * 3600)


def test_no_parser_raises_what_is_not_ours_or_costs_too_much() -> None:
    number = random.SystemRandom().randrange(1 << 32)
    console = Console(width=160, markup=False, highlight=False)
    console.print(f"seed {number}, {CASES} documents each")
    fuzzed = fuzz_all(CASES, number=number, report=console.print)
    assert fuzzed.keys() == PARSERS.keys()
    assert all(sum(outcomes.ends.values()) >= CASES // 2 for outcomes in fuzzed.values()), "too few cases were made"
