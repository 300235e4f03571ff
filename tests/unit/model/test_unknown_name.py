import time
from collections.abc import Iterator
from itertools import repeat

import pytest

from hermesops.errors import UsageError
from hermesops.model.unknown_name import find_by_id, unknown_name
from tests.support.suite.cases import each_case


def test_it_names_what_is_nearest_and_the_command_that_lists_the_rest() -> None:
    error = unknown_name("user", "adda", ["bob", "ada", "adam", "cleo"])
    assert type(error) is UsageError
    assert error.message == "no user 'adda'; nearest: ada, adam"
    assert str(error.hint) == "hermesops instance list"


def test_whose_it_would_be_is_said_and_listed() -> None:
    error = unknown_name("snapshot", "zz", of="ada")
    assert (error.message, str(error.hint)) == ("no snapshot 'zz' of ada", "hermesops snapshot list ada")
    elsewhere = unknown_name("machine", "m", of="cell1", where=" at JustAVPS")
    assert (elsewhere.message, str(elsewhere.hint)) == ("no machine 'm' at JustAVPS", "hermesops cell show cell1")


def test_no_more_than_three_are_named() -> None:
    assert unknown_name("cell", "cell", [f"cell{n}" for n in range(10)]).message.count("cell") == 1 + 1 + 3


@each_case("hostile", ["ada\x1b[2J", "ada\nerror: fine", "ada\u202e", "a" * 81, ""])
def test_names_that_would_act_on_a_terminal_are_left_out(hostile: str) -> None:
    assert unknown_name("image", "ada", [hostile]).message == "no image 'ada'"
    assert unknown_name("image", hostile).message.isprintable()


def test_a_long_name_is_shown_short_and_compared_with_nothing() -> None:
    def known() -> Iterator[str]:
        raise AssertionError("it was compared")
        yield "ada"

    error = unknown_name("user", "a" * 100_000, known())
    assert len(error.message) < 120


def test_ten_thousand_names_cost_no_second() -> None:
    names = [f"user-{number:05d}" for number in range(10_000)]
    began = time.process_time()
    assert "user-01234" in unknown_name("user", "user-1234", names).message
    assert time.process_time() - began < 2


def test_names_without_end_end() -> None:
    assert unknown_name("user", "adda", repeat("nobody")).message == "no user 'adda'"


IDS = ("ab" + "0" * 30, "ac" + "0" * 30, "ac")


def test_an_id_is_found_by_its_beginning_or_as_a_whole() -> None:
    assert find_by_id("operation", "ab", IDS) == IDS[0]
    assert find_by_id("operation", "ac", IDS) == "ac", "a whole id is not the beginning of another one"
    with pytest.raises(UsageError, match="3 operations begin with 'a': ab0"):
        find_by_id("operation", "a", IDS)


@pytest.mark.parametrize("text", ["", "ad"])
def test_what_no_id_begins_with_is_unknown(text: str) -> None:
    with pytest.raises(UsageError, match=f"no operation '{text}'") as unknown:
        find_by_id("operation", text, IDS)
    assert str(unknown.value.hint) == "hermesops operation list --all"


@pytest.mark.parametrize("typed", ["9f31c2xb", "9f31c2xb-1111-4111-8111-111111111111"])
def test_an_id_with_a_slip_is_told_by_its_first_characters(typed: str) -> None:
    with pytest.raises(UsageError, match=r"nearest: 9f31c2ab$"):
        find_by_id("rollout", typed, ["9f31c2ab-1111-4111-8111-111111111111", "00000000-"])


def test_a_slip_of_upper_case_is_near() -> None:
    assert unknown_name("user", "ADA", ["ada"]).message == "no user 'ADA'; nearest: ada"
