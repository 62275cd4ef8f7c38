"""Options of verbs: those that several verbs have, and the declaration of each option in one place.

The options of a verb are the fields of a frozen dataclass, each with its typer annotation, default and help text; the
verb is a function of that dataclass, made a command by `verb`. Signatures of plain functions were rejected: an option
then stands in the signature, in the call of the driver, and in the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar, get_type_hints

import typer

from distced.middleware.model.errors import BusError
from distced.middleware.model.timestamps import parse_duration

if TYPE_CHECKING:
    from distced.middleware.bus.access import Configuration
    from distced.middleware.client.client import Client

LIMIT: Final = "max_"
"""How the options of limits begin, which a configuration may have, too."""

_CONTEXT: Final = "context"
"""Parameter of commands in which typer says where their options are from."""

VARIABLE: Final = "DISTCED_SERVER"
CONFIGURATION: Final = "DISTCED_CONFIG"
DEFAULT: Final = "mqtt://127.0.0.1:1883"

PATIENCE: Final = 4.0  # time for a server to answer a verb, s
O = TypeVar("O")  # noqa: E741

ServerOption: TypeAlias = Annotated[
    str, typer.Option("--server", envvar=VARIABLE, metavar="URL", help="The MQTT server: mqtt://host:port.")
]

HomeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--home", metavar="URL", help="MQTT server of the own site; default: that of --server.", show_default=False
    ),
]


@dataclass(frozen=True)
class AccessOptions:
    """Options of each verb that connects to a server: files for the access to it (`middleware.bus.access`)."""

    config: Annotated[
        Path | None,
        typer.Option(
            envvar=CONFIGURATION, metavar="FILE", help="Configuration: server, login, certificates.", show_default=False
        ),
    ] = None
    ca: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Certificates of authorities, PEM; the system's if left out.", show_default=False
        ),
    ] = None
    cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate of this client, PEM.", show_default=False)
    ] = None
    key: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Key of the certificate, PEM.", show_default=False)
    ] = None
    password_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File with the password of the user in the URL.", show_default=False),
    ] = None


class Duration(int):
    """Default of an option that is a duration: ns, shown as they were written."""

    text: str

    def __new__(cls, text: str) -> Duration:
        made = super().__new__(cls, parse_duration(text))
        made.text = text
        return made

    def __str__(self) -> str:
        return self.text


def duration_option(*names: str, help: str) -> Any:  # noqa: A002
    """Option that is a duration, `90s` or `5min`, in ns; called as the field where no names are given."""
    return typer.Option(*names, metavar="DURATION", parser=_nanoseconds, help=help)


def verb(function: Callable[[O], int]) -> Callable[..., int]:
    """Command of typer made of a function of a dataclass of options; where one of these is the `server`, the command
    has `AccessOptions`, too."""
    hints = get_type_hints(function)
    hints.pop("return", None)
    (options,) = hints.values()
    declared = {each.name: each for each in fields(options)}
    connects = "server" in declared
    annotations = get_type_hints(options, include_extras=True)
    parameters: list[Parameter] = []
    limits = {name: isinstance(each.default, Duration) for name, each in declared.items() if name.startswith(LIMIT)}
    if connects:
        annotations[_CONTEXT] = typer.Context
        parameters.append(Parameter(_CONTEXT, Parameter.KEYWORD_ONLY, annotation=typer.Context))
        declared |= {each.name: each for each in fields(AccessOptions)}
        annotations |= get_type_hints(AccessOptions, include_extras=True)

    def command(**given: Any) -> int:
        if connects:
            context = given.pop(_CONTEXT)
            access = AccessOptions(**{each.name: given.pop(each.name) for each in fields(AccessOptions)})
            given |= _accessed(access, given, context, limits)
        return function(options(**given))

    command.__name__ = function.__name__
    command.__doc__ = function.__doc__
    command.__module__ = function.__module__
    command.__annotations__ = {**annotations, "return": int}
    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            *parameters,
            *(
                Parameter(name, Parameter.KEYWORD_ONLY, default=_default(each), annotation=annotations[name])
                # The one that every verb has comes last.
                for name, each in sorted(declared.items(), key=lambda each: each[0] == "as_json")
            ),
        ]
    )
    return command


def _source(context: typer.Context, option: str) -> str:
    """Where the value of an option is from: COMMANDLINE, ENVIRONMENT or DEFAULT."""
    found = context.get_parameter_source(option)
    return "DEFAULT" if found is None else found.name


def _accessed(
    access: AccessOptions, given: dict[str, Any], context: typer.Context, limits: dict[str, bool]
) -> dict[str, Any]:
    """Server, and home, with the files for the access to them; arguments count more than the environment, and a URL
    more than the configuration, whose home is not for a verb that is given a site of a topology."""
    from distced.middleware.bus.access import Configuration, read_configuration
    from distced.middleware.model.server_address import parse_address

    files = tuple(
        (each.name.replace("_", "-"), str(path.expanduser().absolute()))
        for each in fields(AccessOptions)
        if (path := getattr(access, each.name)) is not None
    )
    server, named = given["server"], access.config
    in_url = dict(parse_address(server).files) if "://" in server else {}
    if "config" in in_url and _source(context, "config") != "COMMANDLINE":
        files = tuple(each for each in files if each[0] != "config")
        named = Path(in_url["config"])
    if not files and named is None:
        return {}
    configuration = Configuration() if named is None else read_configuration(named)
    if _source(context, "server") == "DEFAULT":
        server = configuration.server or server
    if "://" not in server:
        advice = "name it with --server, or as server in the configuration"
        raise BusError("files for the access to a server that is not named", given=server, advice=advice)
    address = parse_address(server)
    found = {"server": replace(address, files=tuple((dict(address.files) | dict(files)).items())).url}
    if "home" in given and given["home"] is None and not given.get("site") and configuration.home:
        found["home"] = configuration.home
    return found | _limits(configuration, context, limits, str(named))


def _limits(
    configuration: Configuration, context: typer.Context, limits: dict[str, bool], where: str
) -> dict[str, int]:
    """Limits of a configuration, for the options of these names that were not given, and which are durations; verbs
    without such options pay no attention to them."""
    found: dict[str, int] = {}
    for name, value in configuration.limits.items() if limits else ():
        if name not in limits:
            raise BusError("not a limit", given=name, allowed=", ".join(limits), where=f"{where}, limits")
        is_duration = limits[name]
        limit = parse_duration(value) if isinstance(value, str) and is_duration else value
        if isinstance(limit, str) or isinstance(value, str) is not is_duration or limit < 1:
            allowed = "a duration, as a text: 1h" if is_duration else "a number, from 1"
            raise BusError("not a limit", given=value, allowed=allowed, where=f"{where}, limits.{name}")
        if _source(context, name) == "DEFAULT":
            found[name] = limit
    return found


@contextmanager
def connected(url: str, home: str | None = None, *, traces: bool = False, filters: bool = False) -> Iterator[Client]:
    """Client of this server, at home at that of its own site, whose sources leave out what nobody reads if it filters;
    `BusError` where one does not answer soon."""
    from distced.middleware.client.client import Client

    client = Client(url, home=home, traces=traces, filters=filters)
    client.start(PATIENCE)
    try:
        yield client
    finally:
        client.stop()


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return Parameter.empty if field.default is MISSING else field.default


def _nanoseconds(given: str | int) -> int:
    # A default is a number already.
    return int(given) if isinstance(given, int) else parse_duration(given)
