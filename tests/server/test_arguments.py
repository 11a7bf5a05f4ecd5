"""What a host can rely on: arguments are taken as meant, or refused in plain words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag.errors import InputError
from markdown_rag.server.arguments import check
from tests.docs.tables import tools

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
        ({"_": True, "_meta": {"a": 1}}, {}),
        ({"tag": None}, {}),
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


@pytest.mark.parametrize(
    ("tool", "name", "meant"),
    [
        ("clear_index", "path", "workspace"),
        ("clear_index", "yes", "confirm"),
        ("index_documents", "path", "current_working_directory"),
        ("index_documents", "force", "force_reindex"),
        ("search_documents", "tag", "tags"),
        ("search_documents", "path", "scope_path"),
        ("search_documents", "question", "query"),
        ("search_documents", "top_k", "k"),
        ("search_documents", "filters", "tags"),
        ("list_documents", "folder", "path"),
        ("read_document", "max_token", "max_tokens"),
        ("read_document", "doc_id", "id"),
        ("get_index_status", "id", "job_id"),
        ("cancel_index", "zzz", ""),
    ],
)
def test_a_name_that_a_tool_does_not_have_is_refused_with_those_it_has_and_the_nearest(
    tool: str, name: str, meant: str
) -> None:
    (schema,) = (each.input_schema for each in tools() if each.name == tool)
    required = dict.fromkeys(schema["required"], "x")
    with pytest.raises(InputError) as refused:
        check(tool, schema, {**required, name: "y"})
    said = str(refused.value)
    assert said.startswith(f"There is no argument `{name}`. {tool} takes ")
    assert all(each in said for each in schema["properties"] if each != "_")
    assert said.endswith(f"; did you mean {meant}?" if meant else ".")


def test_a_tools_arguments_are_named_as_in_a_sentence() -> None:
    (schema,) = (each.input_schema for each in tools() if each.name == "clear_index")
    with pytest.raises(InputError) as refused:
        check("clear_index", schema, {"path": "/notes", "confirm": True})
    said = "There is no argument `path`. clear_index takes workspace and confirm; did you mean workspace?"
    assert str(refused.value) == said


def test_a_long_wrong_value_is_not_repeated_whole() -> None:
    with pytest.raises(InputError) as refused:
        check("ask", SCHEMA, {"query": "q", "k": "x" * 10_000})
    assert len(str(refused.value)) < 300


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.sampled_from(["query", "k", "wait", "deep", "tags", "_other"]), json_values))
def test_any_json_is_either_typed_as_the_schema_says_or_refused_by_us(given_arguments: dict[str, Any]) -> None:
    try:
        checked = check("ask", SCHEMA, given_arguments)
    except InputError:
        return
    types = {"query": str, "k": int, "wait": float, "deep": bool, "tags": list}
    assert all(type(value) is types[name] for name, value in checked.items())
    assert "\0" not in checked["query"]
    checked["query"].encode()
