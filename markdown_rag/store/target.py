"""Where the store is: what an address means."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from markdown_rag.paths import is_store_address, names_server
from markdown_rag.store.failures import illegal_address
from markdown_rag.store.given import OF_INDEX, Given


@dataclass(frozen=True, slots=True)
class Target:
    """Where the store is. data_dir is set for the embedded engine; shown is fit for messages (no credentials).

    database, ca_file: of a server; "" for its default database and the system's authorities. given: what messages call
    the settings it comes from.
    """

    address: str
    token: str
    log_dir: Path
    data_dir: Path | None
    shown: str
    database: str = ""
    ca_file: str = ""
    given: Given = OF_INDEX


def target_of(
    address: str, token: str, state_dir: Path, database: str = "", ca_file: str = "", *, given: Given = OF_INDEX
) -> Target:
    """The meaning of a store's address: a server's address, or the path of a data directory ending in ``.db``.

    A relative path is inside the state directory. Raises StoreAddressError.
    """
    address = address.strip()
    scheme, separator, rest = address.partition("://")
    shown = f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else address
    if not is_store_address(address):
        raise illegal_address(shown, given)
    if names_server(address):
        return Target(address, token, state_dir, None, shown, database, ca_file, given)
    data_dir = state_dir / Path(address).expanduser()
    return Target(address, "", state_dir, data_dir, str(data_dir), given=given)
