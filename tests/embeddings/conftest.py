"""The stub provider, real SDKs pointed at it, and the check that no request's thread outlives its test."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "data"))

from stub_embeddings import Behaviour, StubServer

from markdown_rag.embeddings.base import Embedder, Role
from markdown_rag.embeddings.registry import EmbeddingSettings, create_embedder
from tests.waiting import SECONDS, eventually, joined

KEY = "sk-test-0123456789abcdefSECRET"

Make = Callable[..., Embedder]
Hosted = Callable[[str], Embedder]


class When(threading.Thread):
    """Does something as soon as the provider has been asked, in a thread of its own."""

    def __init__(self, stub: StubServer, act: Callable[[], object], requests: int = 1) -> None:
        super().__init__(daemon=True)
        self._stub, self._act, self._requests = stub, act, requests
        self._asked = False
        self.start()

    def run(self) -> None:
        try:
            eventually(lambda: self._stub.state.now >= self._requests)
            self._asked = True
        finally:
            self._act()

    def check(self) -> None:
        """It was asked, and what was to be done then is done."""
        joined(self)
        assert self._asked


@pytest.fixture(scope="session", autouse=True)
def sdk_is_loaded() -> None:
    """Import what takes a second once, outside the tests that look at time."""
    import openai  # noqa: F401


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "embedding-request":
            thread.join(SECONDS)
            assert not thread.is_alive(), "a request's thread outlived its test"


@pytest.fixture(scope="session")
def server() -> Iterator[StubServer]:
    with StubServer() as running:
        yield running


@pytest.fixture
def stub(server: StubServer) -> Iterator[StubServer]:
    """The session's stub with its usual behaviour and counters at zero."""
    server.control(**asdict(Behaviour(dim=16, mode="hash")))
    server.reset()
    yield server
    server.control(hang=False)


@pytest.fixture(scope="session")
def service_account() -> dict[str, str]:
    """A Google service account's file content, with a key of its own."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return {
        "type": "service_account",
        "project_id": "notes-project",
        "private_key_id": "1",
        "private_key": pem,
        "client_email": "notes@notes-project.iam.gserviceaccount.com",
        "client_id": "1",
    }


def build(provider: str, server: StubServer, **more: object) -> Embedder:
    """A real adapter pointed at the stub."""
    root = server.url.removesuffix("/v1")
    values: dict[str, object] = {
        "base_url": root if provider in ("gemini", "vertex") else server.url,
        "api_key": KEY,
        "timeout_s": 60.0,
        "model": "text-embedding-005" if provider == "vertex" else "",
    }
    return create_embedder(EmbeddingSettings(provider=provider, **{**values, **more}))  # type: ignore[arg-type]


@pytest.fixture
def credentials(
    server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service_account: dict[str, str]
) -> None:
    """Google's variable, pointing at a service account whose tokens the stub gives out."""
    file = tmp_path / "account.json"
    file.write_text(json.dumps({**service_account, "token_uri": server.url.removesuffix("/v1") + "/token"}))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))


@pytest.fixture
def make(stub: StubServer, credentials: None) -> Iterator[Make]:  # noqa: ARG001
    """make(provider, **settings): an adapter of its own, closed after the test."""
    opened: list[Embedder] = []

    def fresh(provider: str = "openai-compatible", **more: object) -> Embedder:
        opened.append(build(provider, stub, **more))
        return opened[-1]

    yield fresh
    for embedder in opened:
        embedder.close()


@pytest.fixture(scope="session")
def connected() -> Iterator[dict[str, Embedder]]:
    """Adapters that stay connected for the whole session, by provider: a new SDK client costs a tenth of a second."""
    adapters: dict[str, Embedder] = {}
    yield adapters
    for embedder in adapters.values():
        embedder.close()


@pytest.fixture
def hosted(stub: StubServer, connected: dict[str, Embedder], credentials: None) -> Hosted:  # noqa: ARG001
    """hosted(provider): its connected adapter with the default settings."""

    def get(provider: str) -> Embedder:
        if provider not in connected:
            connected[provider] = build(provider, stub)
            asked, stub.state.b = stub.state.b, type(stub.state.b)()  # whatever the test has told the stub to do
            connected[provider].embed(["connects, and fetches a token where one is needed"], Role.DOCUMENT)
            stub.state.b = asked
            stub.reset()
        return connected[provider]

    return get
