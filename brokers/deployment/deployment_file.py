"""Deployment file: the MQTT servers of a deployment, and its participants with their roles.

`distced init` writes it, people edit it, and `brokers.deployment.folder` follows it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from distced.brokers.deployment.access_list import ROLES, DeployedUser
from distced.middleware.model.errors import DistcedError
from distced.middleware.model.toml_text import read_toml
from distced.middleware.wire.topics import ROOT, check_root

NAME: Final = "deployment.toml"
PORT: Final = 8883


class ServerSite(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """MQTT server of a site.

    Attributes:
        hosts: names and addresses by which participants reach it, the first one in their configurations.
        port: of TLS.
        directory: whether it is the server of the directory; the first one where none is.
    """

    hosts: tuple[str, ...]
    port: int = PORT
    directory: bool = False

    @property
    def url(self) -> str:
        """URL in the configurations."""
        host = self.hosts[0]
        return f"mqtts://{f'[{host}]' if ':' in host else host}:{self.port}"


class Deployment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of the file.

    Attributes:
        servers: by site.
        participants: by the name of their user.
        homes: site of participants that are not at that of the directory.
        root: first level of all topics.
    """

    servers: dict[str, ServerSite]
    participants: dict[str, DeployedUser] = {}
    homes: dict[str, str] = {}
    root: str = ROOT

    @property
    def directory(self) -> str:
        """Site of the server of the directory."""
        return next((name for name, each in self.servers.items() if each.directory), next(iter(self.servers)))


msgspec.msgpack.Decoder(Deployment)  # resolves its annotations before there are threads, for `convert`


def read_deployment(path: Path) -> Deployment:
    """Deployment file. Raises `DistcedError` for one that makes no sense."""
    content = read_toml(path, "deployment", DistcedError)
    try:
        found = msgspec.convert(content, Deployment)
    except msgspec.ValidationError as error:
        advice = f"see docs/how-to/security.md; roles are {', '.join(ROLES)}"
        raise DistcedError("not a deployment", given=str(error), where=str(path), advice=advice) from None
    check(found, str(path))
    return found


def check(deployment: Deployment, where: str) -> None:
    """Raise `DistcedError` for a deployment that makes no sense."""
    if not deployment.servers:
        raise DistcedError(
            "a deployment without a server", where=where, advice="write a table [servers.NAME], or name it with --host"
        )
    for name in (*deployment.servers, *deployment.participants):
        # Each has a folder of its name.
        if not name or name.startswith(".") or not name.isprintable() or set(name) & set("/\\"):
            allowed = "printable text without / and \\, not beginning with a dot"
            raise DistcedError("not the name of a site or participant", given=name, allowed=allowed, where=where)
    for name, server in deployment.servers.items():
        if not server.hosts or not all(server.hosts):
            raise DistcedError("a server without a host", given=name, where=where, advice='write hosts = ["HOST"]')
        if not 0 < server.port < 65_536:
            raise DistcedError("not a port", given=server.port, allowed="1 to 65535", where=f"{where}, servers.{name}")
    if sum(each.directory for each in deployment.servers.values()) > 1:
        raise DistcedError("several servers of the directory", where=where, allowed="directory = true for one")
    for name, site in deployment.homes.items():
        if name not in deployment.participants or site not in deployment.servers:
            raise DistcedError(
                "a home of nobody, or at no server",
                given=f"{name} = {site}",
                allowed=f"participants: {', '.join(deployment.participants)}; servers: {', '.join(deployment.servers)}",
                where=f"{where}, homes",
            )
    check_root(deployment.root)
    owners: dict[str, str] = {}
    for name, participant in deployment.participants.items():
        if not participant.roles:
            raise DistcedError("a participant without a role", given=name, allowed=", ".join(ROLES), where=where)
        bridge = name.removesuffix("-bridge")
        if bridge != name and {"node", "bridge"} & {*getattr(deployment.participants.get(bridge), "roles", ())}:
            raise DistcedError(
                "the name that a bridge has as a source and client", given=name, where=f"{where}, {bridge}",
                advice="give the participant another one",
            )  # fmt: skip
        if participant.sources and "publisher" not in participant.roles:
            raise DistcedError("sources of a participant that is no publisher", given=name, where=where)
        for source in participant.sources:
            if owners.setdefault(source, name) != name:
                owner = f"{owners[source]} and {name}"
                raise DistcedError("a source of two publishers", given=source, where=f"{where}, {owner}")


def write_deployment(path: Path, deployment: Deployment) -> list[str]:
    """Write the file, as a whole or not at all; the one before stays beside it where somebody has edited it, as its
    comments are lost. Returns the names of the files written."""
    written = [path.name]
    before = path.read_text("utf-8") if path.exists() else ""
    if before and before != as_toml(read_deployment(path)):
        kept = path.with_suffix(".before.toml")
        kept.write_text(before, "utf-8")
        written.append(kept.name)
    temporary = path.with_name(f".{path.name}.new")
    temporary.write_text(as_toml(deployment), "utf-8")
    temporary.replace(path)
    return written


def as_toml(deployment: Deployment) -> str:
    """The file as text."""
    lines = ["# Deployment of distced: servers and participants. `distced init FOLDER` follows it.", ""]
    if deployment.root != ROOT:
        lines += [f"root = {_text(deployment.root)}", ""]
    for name, server in deployment.servers.items():
        lines += [f"[servers.{_key(name)}]", f"hosts = {_texts(server.hosts)}", f"port = {server.port}"]
        lines += ["directory = true"] if server.directory else []
        lines.append("")
    for name, participant in deployment.participants.items():
        lines.append(f"[participants.{_key(name)}]")
        for field in participant.__struct_fields__:
            value = getattr(participant, field)
            lines += [f"{field} = {_texts(value)}"] if value else []
        lines.append("")
    if deployment.homes:
        lines += ["[homes]", *(f"{_key(name)} = {_text(site)}" for name, site in deployment.homes.items()), ""]
    return "\n".join(lines)


def _key(name: str) -> str:
    return name if name.isascii() and name.replace("-", "_").isidentifier() else _text(name)


def _text(value: str) -> str:
    # JSON's escapes are among those of TOML.
    return msgspec.json.encode(value).decode()


def _texts(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_text, values))}]"
