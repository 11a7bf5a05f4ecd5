"""What plain sockets and files tell of a server before any library speaks to it: addresses in, facts or errors out."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from urllib.parse import urlsplit

from markdown_rag.errors import StoreAddressError, StoreUnavailable
from markdown_rag.store.failures import unreadable_ca
from markdown_rag.store.given import OF_INDEX, Given

_PORT, _TLS_PORT = 19530, 443  # what the library takes where an address names none
_SECONDS = 3.0


def place_of(address: str) -> tuple[str, int]:
    """Host and port of a server's address, as ``target_of`` has accepted it."""
    parts = urlsplit(address)
    return parts.hostname or "localhost", parts.port or (_TLS_PORT if parts.scheme == "https" else _PORT)


def wants_tls(address: str) -> bool:
    """Whether a server at an address without TLS answers a TLS greeting."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # only whether it speaks; nothing is sent
    with (
        contextlib.suppress(OSError),
        socket.create_connection(place_of(address), timeout=_SECONDS) as raw,
        context.wrap_socket(raw),
    ):
        return True
    return False


def reach(address: str, given: Given = OF_INDEX) -> str:
    """Connect and hang up. StoreUnavailable with the network's own word for what is wrong."""
    host, port = place_of(address)
    try:
        with socket.create_connection((host, port), timeout=_SECONDS):
            return f"{host}:{port} takes connections"
    except OSError as error:
        raise StoreUnavailable(
            f"{host}:{port} takes no connection: {error.strerror or error}.",
            f"Check that the server runs, that no firewall is between, and {given.address}.",
        ) from error


def greet_tls(address: str, shown: str, ca_file: str, given: Given = OF_INDEX) -> str:
    """A TLS greeting as the client will do it. StoreAddressError where it will not be trusted."""
    host, port = place_of(address)
    context = ssl.create_default_context(cafile=checked_ca_file(ca_file, given) if ca_file else None)
    try:
        with (
            socket.create_connection((host, port), timeout=_SECONDS) as raw,
            context.wrap_socket(raw, server_hostname=host) as tls,
        ):
            until = (tls.getpeercert() or {}).get("notAfter", "")
            return f"{tls.version()}, certificate trusted until {until}"
    except ssl.SSLCertVerificationError as error:
        raise StoreAddressError(
            f"The certificate of Milvus at {shown} is not trusted: {error.verify_message}",
            f"Set {given.ca_file} to the certificate of the authority that issued it, and use a name it carries.",
        ) from error
    except OSError as error:
        raise StoreAddressError(
            f"What listens at {shown} does not speak TLS.", f"Write http:// instead of https:// in {given.address}."
        ) from error


def checked_ca_file(path: str, given: Given = OF_INDEX) -> str:
    """The path, written out; StoreAddressError unless the file can be read and holds certificates."""
    whole = os.path.expanduser(path)
    try:
        ssl.create_default_context(cafile=whole)
    except OSError as error:  # SSLError, of a file without certificates, is one
        raise unreadable_ca(path, error, given) from error
    return whole
