"""What crosses the wire comes out as it went in: calls, answers, errors, paths that are no Unicode."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from markdown_rag import errors
from markdown_rag.errors import FastRagError, GuardError, InputError, ServiceError
from markdown_rag.facade import Facade, IndexCall, SearchCall
from markdown_rag.jobs.owner import this_process
from markdown_rag.service import wire
from markdown_rag.service.methods import METHODS, PROGRESS, pack, takes_progress, unpack

CLASSES = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, FastRagError) and kind.__init__
]


def test_every_method_of_the_facade_can_be_called_across_processes() -> None:
    public = {name for name in vars(Facade) if not name.startswith("_")}
    assert set(METHODS) == public - {"close"}


def test_no_two_errors_share_a_code() -> None:
    assert len({kind.code for kind in CLASSES}) == len(CLASSES)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@given(message=st.text(), next_step=st.text())
def test_an_error_comes_out_as_the_same_class_with_the_same_words(kind: Any, message: str, next_step: str) -> None:
    sent = json.loads(json.dumps(wire.error_to_json(kind(message, next_step))))
    error = wire.error_from_json(sent)
    assert type(error) is kind
    assert vars(error) == vars(kind(message, next_step))
    assert str(error) == str(kind(message, next_step))


def test_what_an_error_holds_beside_its_words_comes_along() -> None:
    guard = wire.error_from_json(json.loads(json.dumps(wire.error_to_json(GuardError("a", "b", ("x", "y"))))))
    assert isinstance(guard, GuardError)
    assert guard.paths == ("x", "y")
    late = wire.error_to_json(errors.EmbeddingUnavailable("a", "b", retry_after=2.5))
    assert vars(wire.error_from_json(late))["retry_after"] == 2.5


def test_an_error_of_a_newer_version_keeps_its_words() -> None:
    error = wire.error_from_json({"code": "not yet", "values": {"message": "It is so.", "next_step": "Do this."}})
    assert (type(error), str(error)) == (ServiceError, "It is so. Do this.")


@given(text=st.text(st.characters(exclude_categories=())), k=st.integers())
def test_a_call_comes_out_as_it_went_in_whatever_its_texts_hold(text: str, k: int) -> None:
    call = SearchCall(text, k=k, tags=(text,), workspace=text)
    packed, _ = pack("search", (call,), {})
    agent = wire.Agent(Path("/somewhere"), {"MARKDOWN_WORKSPACE": text}, this_process())
    heard, arguments = wire.read_request(wire.request(agent, packed))
    assert heard == agent
    assert unpack("search", arguments) == {"call": call}


def test_an_index_call_can_be_told_from_another_equal_one() -> None:
    ids = {pack("index", (IndexCall(),), {})[0]["call"]["request_id"] for _ in range(2)}
    assert len(ids) == 2
    assert pack("index", (IndexCall(request_id="mine"),), {})[0]["call"]["request_id"] == "mine"


def test_a_progress_function_stays_at_home() -> None:
    packed, on_progress = pack("status", ("id", 2.0), {PROGRESS: print})
    assert (packed, on_progress) == ({"job_id": "id", "wait_seconds": 2.0}, print)
    assert takes_progress("status")
    assert not takes_progress("search")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("search", {}), ("search", {"call": {"no": "such field"}}), ("search", {"call": 3}), ("status", {"unknown": 1})],
)
def test_arguments_of_another_version_are_an_error_in_words(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="different versions"):
        unpack(name, arguments)


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"\xff", b'{"agent":1}', b"[" * 100_000])
def test_a_body_that_is_no_request_is_an_error_in_words(body: bytes) -> None:
    with pytest.raises(InputError):
        wire.read_request(body)


def test_only_what_is_safe_twice_is_done_twice() -> None:
    assert METHODS["cancel"].once({"job_id": ""})
    assert not METHODS["cancel"].once({"job_id": "1234abcd"})
    assert not any(METHODS[name].once({}) for name in METHODS if name != "cancel")
