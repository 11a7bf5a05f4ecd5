"""Talking to a running service about itself: what it is, asking it to leave; and to its older versions.

A newer service asks those of older versions with the same settings to leave as soon as no client uses them and their
jobs have ended, instead of after their idle time.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx2

from markdown_rag.errors import ServiceError
from markdown_rag.processes.endpoint import Endpoint, greet, read_endpoint
from markdown_rag.service.identity import Identity

ANSWER_SECONDS = 5.0
_KEPT_SECONDS = 60.0  # an unused connection; shorter than a service keeps it

log = logging.getLogger(__name__)


def http_client(endpoint: Endpoint, seconds: float = ANSWER_SECONDS) -> httpx2.Client:
    """An HTTP client of a service. seconds: for an answer, unless a request says otherwise."""
    how, _, place = endpoint.address.partition(":")
    uds = place if how == "unix" else None
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=_KEPT_SECONDS)
    return httpx2.Client(
        transport=httpx2.HTTPTransport(uds=uds, verify=False, trust_env=False, limits=limits),
        base_url="http://service" if uds else f"http://{place}",
        headers={"authorization": f"Bearer {endpoint.token}"},
        timeout=httpx2.Timeout(seconds, connect=ANSWER_SECONDS),
        trust_env=False,  # a proxy has no business here
    )


def ask(endpoint: Endpoint, method: str, path: str) -> dict[str, Any]:
    """One question about the service itself. Raises ServiceError where it does not answer."""
    try:
        with http_client(endpoint) as client:
            response = client.request(method, path)
            response.raise_for_status()
            answer: dict[str, Any] = json.loads(response.content)["answer"]
    except (httpx2.HTTPError, ValueError, KeyError) as error:
        raise ServiceError("The background service does not answer.") from error
    return answer


def about(endpoint: Endpoint) -> dict[str, Any]:
    """What the service says of itself."""
    return ask(endpoint, "GET", "/about")


def leave(endpoint: Endpoint, *, when_unused: bool = False) -> None:
    """Ask it to end, at once or as soon as nobody uses it and its jobs have ended."""
    ask(endpoint, "POST", "/leave?when=unused" if when_unused else "/leave")


def siblings(identity: Identity) -> Iterator[Identity]:
    """Services of other versions with the same settings that left an endpoint here."""
    for path in identity.folder.glob(f"{identity.fingerprint}-*.json"):
        other = Identity(identity.folder, identity.fingerprint, path.stem.removeprefix(f"{identity.fingerprint}-"))
        if other != identity:
            yield other


def retire_older(identity: Identity) -> None:
    """Ask every older version to leave when it is unused."""
    for other in siblings(identity):
        if version_key(other.version) >= version_key(identity.version):
            continue
        endpoint = read_endpoint(other.endpoint, other.kind)
        connection = None if endpoint is None else greet(endpoint)
        if connection is None:
            continue
        try:
            leave(connection.endpoint, when_unused=True)
        except ServiceError as error:
            log.warning("version %s: %s", other.version, error)
        finally:
            connection.close()


def version_key(version: str) -> tuple[int, ...]:
    """What versions are ordered by: their numbers ("2.10.0" is newer than "2.9.1")."""
    return tuple(int(number) for number in re.findall(r"\d+", version))
