"""Access of a participant to MQTT servers: user, password, certificates, and the servers that may be given them.

It stands in a *configuration file*, or file by file in the URL of a server (`mqtts://host?config=FILE`,
`?ca=FILE&cert=FILE&key=FILE`), which is handed on as one text to actors and processes. Files are read for each attempt
to connect, so that a new password or certificate counts without a restart.

A home that an entry of the directory names may be anybody's, so it is given nothing: user, password and client
certificate are for the server that was named to the participant, that of its own site, and those in `servers` of the
configuration file (`docs/how-to/security.md`).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from distced.middleware.bus.logger import get_logger
from distced.middleware.model.errors import BusError
from distced.middleware.model.server_address import Address, parse_address, server_name
from distced.middleware.model.toml_text import read_toml

MOST_PASSWORD: Final = 65_535
"""Bytes of a password (MQTT 5, section 3.1.3.6)."""

_log = get_logger(__name__)

T = TypeVar("T")

Version: TypeAlias = tuple[int, int, int]
"""Time of the last change (ns), size and inode of a file."""


class Configuration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Configuration file of a participant. Paths are relative to its folder.

    Attributes:
        name: of the participant; the user's where left out.
        server, home: servers of the directory and of the own site; empty for those of the options.
        user, password_file: login; the password is the first line of the file.
        ca: certificates of authorities, PEM; those of the system where left out.
        cert, key: certificate of this participant and its key, PEM.
        servers: further servers that may be given login and certificate.
        ray_token: file with the token of the Ray cluster of a broker node; it is no file of access to servers.
        limits: of a broker node, by the names of its options without dashes in front, `max_instances = 100_000`.
    """

    name: str = ""
    server: str = ""
    home: str = ""
    user: str = ""
    password_file: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""
    servers: tuple[str, ...] = ()
    ray_token: str = ""
    limits: dict[str, int | str] = {}


msgspec.msgpack.Decoder(Configuration)  # resolves its annotations before there are threads, for `convert`


@dataclass(frozen=True)
class Login:
    """User and password for a server; None for none."""

    user: str | None
    password: str | None


def read_configuration(path: Path) -> Configuration:
    """Configuration file, with paths that are absolute. Raises `BusError` for one that cannot be used."""
    content = read_toml(path, "configuration", BusError)
    try:
        found = msgspec.convert(content, Configuration)
    except msgspec.ValidationError as error:
        allowed = ", ".join(Configuration.__struct_fields__)
        raise BusError("not a configuration", given=str(error), allowed=allowed, where=str(path)) from None
    folder = path.expanduser().absolute().parent
    files = {name: getattr(found, name) for name in ("password_file", "ca", "cert", "key", "ray_token")}
    placed = {name: str(folder / Path(each).expanduser()) for name, each in files.items() if each}
    for each in (found.server, found.home, *found.servers):
        if each:
            parse_address(each)
    return msgspec.structs.replace(found, **placed)


def participant_name(url: str) -> str:
    """Name of the participant that a URL's configuration is for; empty where it has none.

    Servers with an access list let it use this name alone.
    """
    address = parse_address(url)
    path = dict(address.files).get("config")
    given = Configuration() if path is None else read_configuration(Path(path))
    return given.name or given.user


def configured(path: Path) -> tuple[str, str | None]:
    """URL of the server that a configuration file names, with the access to it, and the URL of its home, None where it
    names none.

    Raises `BusError` for a file that cannot be used, or names no server.
    """
    found = read_configuration(path)
    if not found.server:
        raise BusError("a configuration without a server", where=str(path), advice='write server = "mqtts://HOST"')
    address = parse_address(found.server)
    files = dict(address.files) | {"config": str(path.expanduser().absolute())}
    return replace(address, files=tuple(files.items())).url, found.home or None


def ray_token(url: str) -> str:
    """File with the token of the Ray cluster, of a URL's configuration; empty for none."""
    return configuration_of(parse_address(url)).ray_token


def login(address: Address) -> Login:
    """Login for a server, read now. Raises `BusError` for files that cannot be used."""
    given = configuration_of(address)
    password = address.password
    if given.password_file and password is None:
        text = _read(given.password_file, "password file", lambda path: path.read_text("utf-8")[: MOST_PASSWORD + 1])
        password = text.partition("\n")[0].rstrip("\r")
        if not password:
            raise BusError("a password file without a password", given=given.password_file, allowed="one line of text")
    return Login(address.username or given.user or None, password)


def tls_context(address: Address) -> ssl.SSLContext | None:
    """Checks of a server of `mqtts`, and the own certificate, read again where a file has changed; None without
    encryption.

    Raises `BusError` for files that cannot be used.
    """
    given = configuration_of(address)
    if not address.tls:
        if given.ca or given.cert:
            raise BusError(
                "certificates for a server without encryption",
                given=server_name(address),
                advice="write mqtts:// in its URL",
            )
        return None
    if given.key and not given.cert:
        raise BusError("a key without its certificate", given=given.key, advice="name the certificate, too")
    files = (given.ca, given.cert, given.key)
    usual = ssl.get_default_verify_paths()
    return _context(files, tuple(map(_version, (given.ca or usual.cafile or usual.capath or "", *files[1:]))))


@lru_cache(maxsize=16)
def _context(files: tuple[str, str, str], versions: tuple[Version | None, ...]) -> ssl.SSLContext:
    """Context of these files in these versions. Reading the authorities of a system takes tens of milliseconds."""
    ca, cert, key = files
    context = _read(ca, "certificate of an authority", lambda path: ssl.create_default_context(cafile=path))
    if cert:
        # Without the key the certificate's file has both. A key with a passphrase would wait for a terminal.
        _read(cert, "certificate", lambda path: context.load_cert_chain(path, key or None, password=_no_passphrase))
    return context


def _version(file: str) -> Version | None:
    """Version of a file, by what its replacement changes; None for a missing one, or none."""
    try:
        found = Path(file).stat() if file else None
    except (OSError, ValueError):
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def may_be_given(address: Address, server: str) -> bool:
    """Whether the configuration of an address names a server as one that may be given login and certificate."""
    return server_name(server) in map(server_name, configuration_of(address).servers)


def authority_of(address: Address) -> str:
    """File with the certificates of authorities by which servers are checked; empty for those of the system."""
    return configuration_of(address).ca


def configuration_of(address: Address) -> Configuration:
    """Configuration of an address, with the files that its URL names. Raises `BusError` for one that is unusable."""
    files = dict(address.files)
    path = files.pop("config", None)
    read = Configuration() if path is None else _kept_configuration(path)
    return msgspec.structs.replace(read, **{name.replace("-", "_"): each for name, each in files.items()})


_configurations: Final[dict[str, tuple[Version | None, Configuration]]] = {}


def _kept_configuration(path: str) -> Configuration:
    """Configuration file, read again where it has changed; one that cannot be used at present, as while it is being
    replaced, counts as it was, which is logged once."""
    version = _version(path)
    known = _configurations.get(path)
    if known is not None and known[0] == version:
        return known[1]
    try:
        found = read_configuration(Path(path).absolute())
    except BusError as error:
        if known is None:
            raise
        _log.warning("configuration unusable", reason=str(error), advice="the one before counts until it is mended")
        found = known[1]
    _configurations[path] = version, found
    return found


def _read(file: str, what: str, load: Callable[[Any], T]) -> T:
    try:
        return load(Path(file) if file else None)
    except ssl.SSLError as error:
        reason = getattr(error, "reason", None) or str(error)
        raise BusError(f"not a {what}", given=str(Path(file).absolute()), allowed="PEM", advice=reason) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise BusError(f"a {what} that cannot be read", given=str(Path(file).absolute()), advice=reason) from None


def _no_passphrase() -> str:
    raise ValueError("it has a passphrase; a service has nobody to type it in")
