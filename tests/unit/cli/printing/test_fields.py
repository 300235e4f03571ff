"""Fields of one thing: a line each, and never a value of Python."""

from hermesops.cli.printing.fields import field_lines


def test_each_field_has_a_line_with_its_value_in_words() -> None:
    fields: dict[str, object] = {
        "user": "ada",
        "server_type": None,
        "protected": False,
        "plans": ["light", "heavy"],
        "left": {},
        "kept": [],
    }
    assert field_lines(fields) == [
        "user         ada",
        "server type  -",
        "protected    no",
        "plans        light; heavy",
        "left         -",
        "kept         -",
    ]


def test_entries_of_a_mapping_stand_below_its_name() -> None:
    machines = {"m-ada": {"id": "796f", "is_new": True, "links": ["a", "b"]}, "m-ben": {"id": None}, "m-eve": "gone"}
    assert field_lines({"machines": machines, "cell": "cell1"}) == [
        "machines",
        "  m-ada  id 796f, is_new yes, links a; b",
        "  m-ben  id -",
        "  m-eve  gone",
        "cell      cell1",
    ]
