"""Deployment folder: certificates, users, access lists and configurations, as the deployment file says.

    deployment.toml           the servers and participants; edit it, and run distced init again
    authority/                certificate and key of the deployment's authority; keep the key off the network
    servers/SITE/             of a server: mosquitto.conf, its certificate and key, the authority's, users, access list
    participants/NAME/        of a participant: distced.toml, its password, the certificate of the authority

What is there stays, so that participants go on with their passwords; what the file does not name any more is removed,
with its user. Passwords are random, 192 bits, and servers have them hashed, as `mosquitto_passwd` does.
"""

from __future__ import annotations

import os
import secrets
import shutil
from base64 import b64decode, b64encode
from collections.abc import Container, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import pbkdf2_hmac
from pathlib import Path
from typing import Final

import msgspec

from distced.brokers.deployment.access_list import access_list
from distced.brokers.deployment.certificates import CertificatePair, is_issued_by, issue, new_authority, valid_until
from distced.brokers.deployment.deployment_file import Deployment
from distced.middleware.model.errors import DistcedError

ITERATIONS: Final = 101
"""Of the hash of a password, as mosquitto's; one that is random needs no slow hash."""

SOON: Final = timedelta(days=30)
"""Rest of the validity of a server's certificate below which a new one is issued."""

_SERVER: Final = """\
# Written by distced init; further settings go into files in the folder "further". Start mosquitto in this folder.
per_listener_settings false
listener {port}
certfile server.pem
keyfile server.key
tls_version tlsv1.2
allow_anonymous false
password_file users
acl_file access
# The stock limits, 1000 and 20, lose messages as soon as a subscriber falls behind.
max_queued_messages 1000000
max_inflight_messages 1000
max_packet_size 16777216
set_tcp_nodelay true
persistence true
persistence_location state/
include_dir further
"""


@dataclass
class Changes:
    """What was done to a folder: paths written, paths removed."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def apply(deployment: Deployment, folder: Path, now: datetime, *, renew: Container[str] = ()) -> Changes:
    """Bring a folder up to a deployment.

    Args:
        renew: participants that get a new password, and sites whose server gets a new certificate.

    Raises:
        DistcedError: a file that cannot be written or read.
    """
    try:
        return _Folder(deployment, folder, now, renew).apply()
    except OSError as error:
        raise DistcedError("a deployment folder that cannot be used", given=str(folder), advice=str(error)) from None


RAY_TOKEN: Final = "ray.token"
"""Name of the file with the token of the Ray cluster."""


class _Folder:
    def __init__(self, deployment: Deployment, folder: Path, now: datetime, renew: Container[str]) -> None:
        self.deployment = deployment
        self.folder = folder
        self.now = now
        self.renew = renew
        self.changes = Changes()

    def apply(self) -> Changes:
        access = access_list(self.deployment.participants, self.deployment.root)
        authority = self._authority()
        token = self._ray_token()
        passwords = {name: self._participant(name, authority, token) for name in self.deployment.participants}
        for site in self.deployment.servers:
            self._server(site, authority, passwords, access)
        self._remove("participants", self.deployment.participants)
        self._remove("servers", self.deployment.servers)
        return self.changes

    def _authority(self) -> CertificatePair:
        cert, key = self.folder / "authority" / "ca.pem", self.folder / "authority" / "ca.key"
        if cert.exists():
            # The key may be kept elsewhere, and is needed only to issue a certificate.
            return CertificatePair(cert.read_bytes(), key.read_bytes() if key.exists() else b"")
        made = new_authority(f"distced {self.folder.absolute().name}", self.now)
        self._write(key, made.key, secret=True)
        self._write(cert, made.certificate)
        return made

    def _server(self, site: str, authority: CertificatePair, passwords: dict[str, str], access: str) -> None:
        server, folder = self.deployment.servers[site], self.folder / "servers" / site
        cert, hosts = folder / "server.pem", folder / "hosts"
        named = "\n".join(server.hosts) + "\n"
        stays = (
            cert.exists()
            and site not in self.renew
            and hosts.exists()
            and hosts.read_text("utf-8") == named
            and valid_until(cert.read_bytes()) - self.now > SOON
            and is_issued_by(cert.read_bytes(), authority.certificate)
        )
        if not stays:
            pair = issue(authority, server.hosts[0], server.hosts, self.now)
            self._write(folder / "server.key", pair.key, secret=True)
            self._write(cert, pair.certificate)
            self._write(hosts, named.encode())
        self._write(folder / "ca.pem", authority.certificate)
        self._write(folder / "access", access.encode(), secret=True)
        self._write(folder / "users", self._users(folder / "users", passwords).encode(), secret=True)
        (folder / "further").mkdir(parents=True, exist_ok=True)
        (folder / "state").mkdir(exist_ok=True)
        text = _SERVER.format(port=server.port)
        self._write(folder / "mosquitto.conf", text.encode())

    def _users(self, path: Path, passwords: dict[str, str]) -> str:
        """Users with hashes; those whose password has not changed as they are."""
        known = dict(_hashes(path))
        lines = []
        for name, password in passwords.items():
            there = known.get(name)
            lines.append(f"{name}:{there if there is not None and _fits(there, password) else _hashed(password)}\n")
        return "".join(lines)

    def _ray_token(self) -> bytes:
        """Token of the Ray cluster of the nodes, which all of them have."""
        file = self.folder / "authority" / RAY_TOKEN
        if not file.exists():
            self._write(file, f"{secrets.token_hex(32)}\n".encode(), secret=True)
        return file.read_bytes()

    def _participant(self, name: str, authority: CertificatePair, token: bytes) -> str:
        """Files of a participant; its password."""
        folder = self.folder / "participants" / name
        file = folder / "password"
        if file.exists() and name not in self.renew:
            password = file.read_text("utf-8").strip()
        else:
            password = secrets.token_urlsafe(24)
            self._write(file, f"{password}\n".encode(), secret=True)
        self._write(folder / "ca.pem", authority.certificate)
        if self._is_node(name):
            self._write(folder / RAY_TOKEN, token, secret=True)
        elif (folder / RAY_TOKEN).exists():
            (folder / RAY_TOKEN).unlink()
            self.changes.removed.append(f"participants/{name}/{RAY_TOKEN}")
        self._write(folder / "distced.toml", self._configuration(name).encode())
        return password

    def _is_node(self, name: str) -> bool:
        return "node" in self.deployment.participants[name].roles

    def _configuration(self, name: str) -> str:
        deployment = self.deployment
        home = deployment.homes.get(name, deployment.directory)
        others = [each.url for site, each in deployment.servers.items() if site != deployment.directory]
        lines = {
            "name": name,
            "server": deployment.servers[deployment.directory].url,
            "home": "" if home == deployment.directory else deployment.servers[home].url,
            "user": name,
            "password_file": "password",
            "ca": "ca.pem",
            "servers": others,
            "ray_token": RAY_TOKEN if self._is_node(name) else "",
        }
        text = [f"{key} = {msgspec.json.encode(value).decode()}\n" for key, value in lines.items() if value]
        return "".join(["# Written by distced init.\n", *text])

    def _remove(self, kind: str, there: Container[str]) -> None:
        parent = self.folder / kind
        for each in sorted(parent.iterdir()) if parent.exists() else ():
            if each.is_dir() and each.name not in there:
                shutil.rmtree(each)
                self.changes.removed.append(f"{kind}/{each.name}")

    def _write(self, path: Path, content: bytes, *, secret: bool = False) -> None:
        """Write a file that has other content, as a whole or not at all."""
        mode = 0o600 if secret else 0o644
        if path.exists() and path.read_bytes() == content:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.new")
        temporary.unlink(missing_ok=True)
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        self.changes.written.append(str(path.relative_to(self.folder)))


def _hashes(path: Path) -> Iterator[tuple[str, str]]:
    """Users and hashes of a file of users."""
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        name, colon, hashed = line.partition(":")
        if colon:
            yield name, hashed


def _hashed(password: str, salt: bytes | None = None, iterations: int = ITERATIONS) -> str:
    """Hash of a password in mosquitto's form, PBKDF2 with SHA-512."""
    salt = secrets.token_bytes(12) if salt is None else salt
    digest = pbkdf2_hmac("sha512", password.encode(), salt, iterations)
    return f"$7${iterations}${b64encode(salt).decode()}${b64encode(digest).decode()}"


def _fits(hashed: str, password: str) -> bool:
    try:
        _, kind, iterations, salt, _ = hashed.split("$")
        return kind == "7" and _hashed(password, b64decode(salt), int(iterations)) == hashed
    except ValueError:
        return False
