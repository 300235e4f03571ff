"""Which rows of a list are shown, in which order, with which columns."""

from typing import Any

import pytest

from hermesops.cli.printing import rows
from hermesops.errors import UsageError
from hermesops.views.timestamps import Age

COLUMNS = ("user", "status", "age_s")
ROWS: list[dict[str, object]] = [
    {"user": "ben", "status": "running", "age_s": 9, "pythons": ["3.11", "3.12"], "whole": True, "deep": {"a": 1}},
    {"user": "ada", "status": "suspended", "age_s": 10, "pythons": [], "whole": False, "deep": [{"a": 1}]},
    {"user": "cleo", "status": "running", "age_s": None, "pythons": ["3.11"], "whole": True, "deep": None},
]


def users(order: str = "", *filters: str) -> list[Any]:
    return [row["user"] for row in rows.choose(COLUMNS, ROWS, order=order, filters=filters)]


def test_rows_are_sorted_by_what_their_cells_are() -> None:
    assert users() == ["ben", "ada", "cleo"]
    assert users("user") == ["ada", "ben", "cleo"]
    assert users("age_s") == ["ben", "ada", "cleo"], "numbers by their size, nothing at the end"
    assert users("-Age S") == ["ada", "ben", "cleo"]


def test_rows_are_filtered_by_text_of_any_column() -> None:
    for filters, expected in (
        (["status=running"], ["ben", "cleo"]),
        (["STATUS!=Running"], ["ada"]),
        (["user=*e*"], ["ben", "cleo"]),
        (["user=e"], []),
        (["pythons=3.12"], ["ben"]),
        (["pythons=-"], ["ada"]),
        (["age-s="], ["cleo"]),
        (["whole=true", "user!=ben"], ["cleo"]),
        (["user=a.a"], []),
    ):
        assert users("", *filters) == expected, filters


def test_an_unknown_column_is_refused_with_those_that_there_are() -> None:
    for order, filters in (("plan", ()), ("", ("plan=light",)), ("", ("user",)), ("", ("deep=1",))):
        with pytest.raises(UsageError) as raised:
            users(order, *filters)
        assert str(raised.value.hint) == "columns: user, status, age_s, pythons, whole"
    assert rows.choose(COLUMNS, [], order="plan", filters=["plan=light"]) == []


def test_the_wide_form_has_what_fits_into_cells() -> None:
    assert rows.all_columns(COLUMNS, ROWS) == ["user", "status", "age_s", "pythons", "whole"]


def test_a_row_is_named_by_the_column_that_is_called_as_the_rows_are() -> None:
    assert rows.name_column("alerts", ("severity", "alert")) == "alert"
    assert rows.name_column("instances", ("user", "plan")) == "user"


def test_ages_are_shown_in_one_unit_and_sorted_by_their_seconds() -> None:
    for seconds, shown in ((-5, "0 s"), (0, "0 s"), (59, "59 s"), (60, "1 min"), (7199, "1 h"), (200_000, "2 d")):
        assert str(Age(seconds)) == shown
    columns, ages = ("user", "age"), {"ada": 86_400, "ben": 59, "cleo": 3600}
    listed = [{"user": user, "age": Age(seconds)} for user, seconds in ages.items()]
    ordered = rows.choose(columns, listed, order="age", filters=())
    assert [row["user"] for row in ordered] == ["ben", "cleo", "ada"]
    assert rows.choose(columns, listed, order="", filters=["age=1 d"]) == listed[:1]
