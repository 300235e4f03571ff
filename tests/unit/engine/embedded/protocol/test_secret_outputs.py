from hermesops.engine.embedded.protocol.answers import marked_again
from hermesops.engine.embedded.protocol.secret_outputs import with_secret_outputs
from hermesops.engine.embedded.protocol.values import Secret


def test_outputs_are_secret_where_the_input_of_that_name_is() -> None:
    outputs = with_secret_outputs({"a": "1", "b": "2", "c": Secret("3")}, {"a": Secret("1"), "b": "2"}, ())
    assert outputs == {"a": Secret("1"), "b": "2", "c": Secret("3")}


def test_outputs_are_secret_where_the_program_names_them() -> None:
    assert with_secret_outputs({"a": "1", "b": "2"}, {}, ("b",)) == {"a": "1", "b": Secret("2")}


def test_marks_come_back_at_their_places() -> None:
    sent = {"a": Secret("x"), "b": {"c": Secret("y"), "d": "z"}, "e": ["p", Secret("q")]}
    bare = {"a": "x", "b": {"c": "y", "d": "z"}, "e": ["p", "q", "r"], "new": "n"}
    assert marked_again(bare, sent) == {**sent, "e": ["p", Secret("q"), "r"], "new": "n"}
