"""JSON of sides that may be hostile: values are counted as a parser would find them, and larger ones parsed apart."""

import asyncio
import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.base import foreign_json
from hermesops.base.foreign_json import has_more, object_in, parsed_object
from hermesops.base.waiting import Pending, until
from hermesops.wire.strict_json import MalformedJSONError

JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a"\\,[{:}]é', max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='b"\\,[{:', max_size=4), inner),
    max_leaves=20,
)


def signs_of(value: object) -> int:
    """Signs that a document needs for a value: one before each part of it, and one between name and value."""
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(map(signs_of, value))
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + len(value) + sum(map(signs_of, value.values()))
    return 0


@given(JSON)
def test_values_are_counted_whatever_texts_hold(value: object) -> None:
    text, signs = json.dumps(value, ensure_ascii=False).encode(), signs_of(value)
    assert not has_more(text, signs)
    assert not signs or has_more(text, signs - 1)


def test_prose_and_programs_are_one_value_and_tiny_objects_are_many() -> None:
    program = json.dumps({"content": '{"a": ["b", "\\\\"], "c": {}}\n' * 50_000}).encode()
    assert len(object_in(program, most=10, largest=len(program))["content"]) > 1_000_000
    for tiny in (b"{}", b'""', b'"\\""', b"[[]]", b"1"):
        many = b'{"data":[' + b",".join([tiny] * 30_000) + b"]}"
        with pytest.raises(MalformedJSONError, match="more than 20000 values"):
            object_in(many, most=20_000)


async def test_a_larger_document_is_parsed_while_the_event_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def slow(text: bytes, **_bounds: int) -> dict[str, object]:
        begun.set()
        assert goes_on.wait(20), "the event loop stands still"
        return {"size": len(text)}

    monkeypatch.setattr(foreign_json, "object_in", slow)
    parsing = asyncio.ensure_future(parsed_object(b" " * 100_000, most=1, largest=1 << 20))

    async def has_begun() -> bool | Pending[bool]:
        return True if begun.is_set() else Pending("not yet")

    await until(has_begun, what="the parsing", timeout_s=20, every_s=0.01)
    goes_on.set()
    assert await parsing == {"size": 100_000}
