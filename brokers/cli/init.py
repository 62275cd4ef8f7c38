"""`distced init`: a deployment folder with certificates, users and access lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from msgspec.structs import replace
from rich.text import Text
from typer import Argument, Option

from distced.brokers.deployment.access_list import DeployedUser, Role
from distced.brokers.deployment.deployment_file import (
    NAME,
    Deployment,
    ServerSite,
    check,
    read_deployment,
    write_deployment,
)
from distced.middleware.cli.options import verb
from distced.middleware.cli.output import AsJson, output, print_json
from distced.middleware.model.errors import DistcedError


@dataclass(frozen=True)
class InitOptions:
    """Options of `distced init`."""

    folder: Annotated[Path, Argument(metavar="FOLDER", help="Folder of the deployment, existing or new.")]
    hosts: Annotated[
        list[str],
        Option("--host", metavar="[SITE=]HOST,...", help="MQTT server: its names and addresses; repeatable for sites."),
    ] = field(default_factory=list)
    nodes: Annotated[list[str], Option("--node", metavar="NAME[@SITE]", help="Broker node; repeatable.")] = field(
        default_factory=list
    )
    bridges: Annotated[
        list[str], Option("--bridge", metavar="NAME[@SITE]", help="Broker node with a bridge to devices; repeatable.")
    ] = field(default_factory=list)
    publishers: Annotated[
        list[str],
        Option("--publisher", metavar="NAME[@SITE]=SOURCE,...", help="Publisher, with its sources; repeatable."),
    ] = field(default_factory=list)
    clients: Annotated[
        list[str], Option("--client", metavar="NAME[@SITE]", help="Client with subscriptions; repeatable.")
    ] = field(default_factory=list)
    recorders: Annotated[list[str], Option("--recorder", metavar="NAME[@SITE]", help="Recorder; repeatable.")] = field(
        default_factory=list
    )
    operators: Annotated[
        list[str], Option("--operator", metavar="NAME", help="Operator: policies, moves, rules; repeatable.")
    ] = field(default_factory=list)
    renew: Annotated[
        list[str],
        Option("--renew", metavar="NAME", help="Participant with a new password, or site with a new certificate."),
    ] = field(default_factory=list)
    as_json: AsJson = False


@verb
def init(options: InitOptions) -> int:
    """Make or update a deployment folder: certificates, users, access lists.

    The folder has a file of its servers and participants, deployment.toml; options add to it. After a change of that
    file run it again: what is there stays, participants that are not in it any more lose their user. Nothing is sent
    anywhere: copy servers/SITE to the machine of the server, participants/NAME to that of the participant.

    Examples:
      distced init office --host mqtt.example,10.0.1.10 --node cellar --publisher badges=hall,door --client ada
      cd office/servers/main && mosquitto -c mosquitto.conf
      distced subscribe '[Motion] ; [Door]' --config office/participants/ada/distced.toml
    """
    from distced.brokers.deployment.folder import apply

    file = options.folder / NAME
    known = read_deployment(file) if file.exists() else Deployment({})
    deployment = _extended(known, options)
    check(deployment, str(file))
    for each in options.renew:
        if each not in deployment.participants and each not in deployment.servers:
            allowed = ", ".join([*deployment.participants, *deployment.servers])
            raise DistcedError("no participant or site of this name", given=each, allowed=allowed, where=str(file))
    changes = apply(deployment, options.folder, datetime.now(UTC), renew=frozenset(options.renew))
    if deployment != known or not file.exists():
        changes.written[:0] = write_deployment(file, deployment)
    if options.as_json:
        print_json({"folder": str(options.folder), "written": changes.written, "removed": changes.removed})
        return 0
    for each in changes.written:
        output().print(Text.assemble(("written  ", "green"), str(options.folder / each)))
    for each in changes.removed:
        output().print(Text.assemble(("removed  ", "yellow"), str(options.folder / each)))
    if not changes.written and not changes.removed:
        output().print(Text(f"{options.folder} is up to date"))
    return 0


def _extended(known: Deployment, options: InitOptions) -> Deployment:
    """Deployment with what the options add."""
    servers, participants, homes = dict(known.servers), dict(known.participants), dict(known.homes)
    for each in options.hosts:
        site, _, hosts = each.rpartition("=")
        servers[site or "main"] = replace(
            servers.get(site or "main", ServerSite(())), hosts=tuple(filter(None, hosts.split(",")))
        )
    given: list[tuple[str, tuple[Role, ...]]] = [
        *((each, ("node",)) for each in options.nodes),
        *((each, ("node", "bridge")) for each in options.bridges),
        *((each, ("publisher",)) for each in options.publishers),
        *((each, ("client",)) for each in options.clients),
        *((each, ("recorder",)) for each in options.recorders),
        *((each, ("operator",)) for each in options.operators),
    ]
    for text, roles in given:
        head, _, sources = text.partition("=")
        name, _, site = head.partition("@")
        there = participants.get(name, DeployedUser(()))
        participants[name] = replace(
            there,
            roles=tuple(dict.fromkeys((*there.roles, *roles))),
            sources=tuple(dict.fromkeys((*there.sources, *filter(None, sources.split(","))))),
        )
        if site:
            homes[name] = site
    return replace(known, servers=servers, participants=participants, homes=homes)
