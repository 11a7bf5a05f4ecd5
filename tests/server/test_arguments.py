"""What a host can rely on: arguments are taken as meant, or refused in plain words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.errors import InputError
from markdown_rag.server.arguments import check

SCHEMA = {
    "properties": {
        "query": {"type": "string", "description": "A question."},
        "k": {"type": "integer", "description": "How many."},
        "wait": {"type": "number", "description": "Seconds."},
        "deep": {"type": "boolean", "description": "Subfolders."},
        "tags": {"type": "array", "items": {"type": "string"}, "description": "Tags."},
    },
    "required": ["query"],
}


@pytest.mark.parametrize(
    ("given_arguments", "meant"),
    [
        ({"k": "5"}, {"k": 5}),
        ({"k": 5.0}, {"k": 5}),
        ({"k": None}, {}),
        ({"wait": "2.5"}, {"wait": 2.5}),
        ({"deep": "false"}, {"deep": False}),
        ({"deep": "True"}, {"deep": True}),
        ({"deep": 1}, {"deep": True}),
        ({"deep": ""}, {"deep": False}),
        ({"tags": "red"}, {"tags": ["red"]}),
        ({"tags": ["red", 7]}, {"tags": ["red", "7"]}),
        ({"query": 404}, {"query": "404"}),
        ({"wait_for_previous": True}, {}),
    ],
)
def test_what_hosts_send_is_taken_as_meant(given_arguments: dict[str, Any], meant: dict[str, Any]) -> None:
    assert check("ask", SCHEMA, {"query": "q", **given_arguments}) == {"query": "q", **meant}


@pytest.mark.parametrize(
    ("given_arguments", "words"),
    [
        ({"k": "many"}, "k must be a whole number, not 'many'"),
        ({"k": 2.5}, "k must be a whole number"),
        ({"k": True}, "k must be a whole number"),
        ({"wait": "nan"}, "wait must be a number"),
        ({"wait": "1e999"}, "wait must be a number"),
        ({"deep": "maybe"}, "deep must be true or false"),
        ({"deep": 2}, "deep must be true or false"),
        ({"tags": {"a": 1}}, "tags must be a list of texts"),
        ({"query": ["a"]}, "query must be text"),
        ({"query": "a\0b"}, "NUL"),
        ({"query": None}, "query is missing"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_name_and_what_is_allowed(
    given_arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError) as refused:
        check("ask", SCHEMA, {"query": "q", **given_arguments})
    assert words in str(refused.value)
    assert refused.value.next_step


def test_a_long_wrong_value_is_not_repeated_whole() -> None:
    with pytest.raises(InputError) as refused:
        check("ask", SCHEMA, {"query": "q", "k": "x" * 10_000})
    assert len(str(refused.value)) < 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["query", "k", "wait", "deep", "tags", "other"]), json_values))
def test_any_json_is_either_typed_as_the_schema_says_or_refused_by_us(given_arguments: dict[str, Any]) -> None:
    try:
        checked = check("ask", SCHEMA, given_arguments)
    except InputError:
        return
    types = {"query": str, "k": int, "wait": float, "deep": bool, "tags": list}
    assert all(type(value) is types[name] for name, value in checked.items())
    assert "\0" not in checked["query"]
    checked["query"].encode()
