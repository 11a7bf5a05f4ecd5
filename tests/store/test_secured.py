"""A real Milvus server with users and TLS: who may enter, which database, and what becomes of a server that goes."""

from __future__ import annotations

import datetime as dt
import ipaddress
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from markdown_rag.errors import StoreAddressError, StoreAuthError, StoreError, StoreUnavailable
from markdown_rag.store.base import EVERYTHING, Store
from markdown_rag.store.checkup import check
from markdown_rag.store.milvus import library
from markdown_rag.store.opening import StoreSettings, find_collections, open_store
from tests.ports import refusing
from tests.standalone import Standalone
from tests.waiting import joined

from .conftest import MODEL, record, settles, vector

pytestmark = pytest.mark.server

ROOT = "root:Milvus"


def write_certificates(folder: Path) -> None:
    """ca.pem, other.pem (an authority that signed nothing here), server.pem and server.key for localhost."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    def key() -> rsa.RSAPrivateKey:
        return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)

    def certificate(name: str, public: object, issuer: str, signer: rsa.RSAPrivateKey, *, ca: bool) -> bytes:
        now = dt.datetime.now(dt.UTC)
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
            .public_key(public)  # type: ignore[arg-type]
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1))
            .not_valid_after(now + dt.timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        return builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority, other, server = key(), key(), key()
    pem = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    (folder / "ca.pem").write_bytes(certificate("CA", authority.public_key(), "CA", authority, ca=True))
    (folder / "other.pem").write_bytes(certificate("Other", other.public_key(), "Other", other, ca=True))
    (folder / "server.pem").write_bytes(certificate("server", server.public_key(), "CA", authority, ca=False))
    (folder / "server.key").write_bytes(server.private_bytes(*pem))


@dataclass(frozen=True)
class Secured:
    """A server with users and TLS, and settings that enter."""

    server: Standalone
    settings: StoreSettings
    files: Path

    def open(self, **other: object) -> Store:
        return open_store(replace(self.settings, **other), MODEL)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def secured(milvus: Standalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """In place of the run's own server while this module's tests need it: one machine carries one."""
    files = tmp_path_factory.mktemp("tls")
    write_certificates(files)
    milvus.stop()
    server = Standalone(
        tmp_path_factory.mktemp("secured"),
        authorization_enabled=True,
        tls_mode=1,
        server_pem_path=str(files / "server.pem"),
        server_key_path=str(files / "server.key"),
    )
    server.start()
    try:
        address = f"https://localhost:{server.port}"
        yield Secured(
            server, StoreSettings(address, ROOT, "secured", 1000, 10.0, files, ca_file=str(files / "ca.pem")), files
        )
    finally:
        server.stop()
        milvus.start()


@contextmanager
def opened(store: Store) -> Iterator[Store]:
    try:
        yield store
    finally:
        store.close()


def refusal(store: Store) -> StoreError:
    with opened(store), pytest.raises(StoreError) as caught:
        store.count()
    assert caught.value.__cause__ is not None
    assert "Milvus" not in str(caught.value.__cause__).partition("root:")[2], "no password in the chain"
    return caught.value


def test_rows_go_in_and_out_with_credentials_over_tls(secured: Secured) -> None:
    with opened(secured.open()) as store:
        store.insert([record("a.md", number) for number in range(5)])
        assert store.count() == 5
        settles(store, lambda: len(store.dense(vector(1), 10)), 5)
    assert [info.rows for info in find_collections(secured.settings)] == [5]


@pytest.mark.parametrize(
    ("other", "kind", "says"),
    [
        ({"token": "root:wrong"}, StoreAuthError, "refuses these credentials"),
        ({"token": ""}, StoreAuthError, "MILVUS_TOKEN is not set"),
        ({"ca_file": ""}, StoreAddressError, "not trusted"),
        ({"database": "nowhere"}, StoreAddressError, "no such database"),
    ],
)
def test_each_way_to_be_turned_away_has_its_own_words(
    secured: Secured, other: dict[str, str], kind: type[StoreError], says: str
) -> None:
    error = refusal(secured.open(**other))
    assert type(error) is kind
    assert says in str(error)
    assert "wrong" not in str(error)


def test_a_foreign_authority_a_foreign_name_and_a_missing_tls_are_told_apart(secured: Secured) -> None:
    port = secured.server.port
    assert "not trusted" in str(refusal(secured.open(ca_file=str(secured.files / "other.pem"))))
    assert "another name" in str(refusal(secured.open(address=f"https://127.0.0.2:{port}")))
    assert "https://" in str(refusal(secured.open(address=f"http://localhost:{port}")))


def test_a_user_without_rights_is_told_so_and_not_that_the_password_is_wrong(secured: Secured) -> None:
    with opened(secured.open()) as store:
        store.ensure()
    admin = library().MilvusClient(
        uri=secured.settings.address, token=ROOT, server_pem_path=secured.settings.ca_file, dedicated=True
    )
    admin.create_user("reader", "reader12")
    admin.close()
    # The server takes a moment to know a new user.
    with opened(secured.open(token="reader:reader12")) as store:
        errors: list[str] = []

        def look() -> bool:
            with pytest.raises(StoreAuthError) as caught:
                store.count()
            errors.append(str(caught.value))
            return "no right" in errors[-1]

        settles(store, look, True)


def test_a_database_is_a_place_of_its_own(secured: Secured) -> None:
    admin = library().MilvusClient(
        uri=secured.settings.address, token=ROOT, server_pem_path=secured.settings.ca_file, dedicated=True
    )
    admin.create_database("notes")
    admin.close()
    with opened(secured.open(database="notes")) as there, opened(secured.open()) as here:
        before = here.count()
        there.insert([record("only-there.md")])
        assert there.count() == 1
        assert here.count() == before


def test_the_way_is_checked_step_by_step_up_to_what_is_wrong(secured: Secured) -> None:
    steps = list(check(secured.settings, MODEL))
    assert all(step.ok for step in steps), steps
    names = ["address", "network", "TLS", "credentials", "database", "collection", "search"]
    assert [step.name for step in steps] == names
    with refusing() as port:
        for other, failing in (
            ({"address": f"https://127.0.0.1:{port}"}, "network"),
            ({"ca_file": str(secured.files / "other.pem")}, "TLS"),
            ({"token": "root:wrong"}, "credentials"),
            ({"database": "nowhere"}, "database"),
        ):
            last = list(check(replace(secured.settings, **other), MODEL))[-1]
            assert (last.name, last.ok) == (failing, False)


def test_a_server_that_restarts_during_writing_and_searching_loses_nothing_and_stops_nobody(secured: Secured) -> None:
    rows = [record(f"{number:03}.md", text=f"text {number}") for number in range(300)]
    half, done = threading.Event(), threading.Event()
    failures: list[BaseException] = []
    searches: list[int] = []

    def guarded(work: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)
            finally:
                half.set()

        return run

    with opened(secured.open(wait_s=90.0, timeout_s=60.0, prefix="restart")) as store:
        store.ensure()

        def write() -> None:
            for number, row in enumerate(rows):
                store.insert([row])
                if number == 100:
                    half.set()
            done.set()

        def search() -> None:
            while not done.is_set() and not failures:
                searches.append(len(store.dense(vector(3), 3)))

        threads = [threading.Thread(target=guarded(write)), threading.Thread(target=guarded(search))]
        for thread in threads:
            thread.start()
        assert half.wait(120)
        secured.server.stop()
        secured.server.start()
        joined(*threads, seconds=240)
        assert not failures
        assert done.is_set()
        assert {key.path for key in store.keys(EVERYTHING)} == {row.path for row in rows}
        assert store.count() == len(rows)


def test_a_server_that_stays_away_is_given_up_after_the_wait_and_the_next_call_does_not_wait_again(
    secured: Secured,
) -> None:
    secured.server.stop()
    with opened(secured.open(wait_s=3.0, timeout_s=60.0)) as store:
        try:
            for _ in range(2):
                with pytest.raises(StoreUnavailable, match="nothing listens there"):
                    store.count()
        finally:
            secured.server.start()
        assert store.count() >= 0, "back as soon as it is back"
