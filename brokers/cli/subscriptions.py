"""The verb `subscriptions`, with verbs of its own: `ls` and `rm`, for durable subscriptions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer
from typer import Argument

from distced.brokers.cli.inspect import Seen, Watched, show
from distced.brokers.core.directory import Directory
from distced.brokers.inspect.durable_report import subscriptions_report, subscriptions_text
from distced.brokers.live.observers import LiveDirectory
from distced.middleware.cli.options import DEFAULT, ServerOption, verb
from distced.middleware.cli.output import AsJson, few, output, print_json
from distced.middleware.cli.signals import ending
from distced.middleware.client.directory_session import OF_DURABLE
from distced.middleware.client.durable import durable_id
from distced.middleware.model.errors import DistcedError
from distced.middleware.wire.topics import directory_topic

subscriptions = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Show and end durable subscriptions, which nodes keep while their applications are away.",
)


@dataclass(frozen=True, kw_only=True)
class ShowDurableOptions:
    """Options of `distced subscriptions ls`."""

    server: ServerOption = DEFAULT
    watch: Watched = False
    as_json: AsJson = False


@subscriptions.command("ls")
@verb
def show_subscriptions(options: ShowDurableOptions) -> int:
    """Show the durable subscriptions: who reads each, since when nobody does, and what is kept.

    Subscriptions that were ended, as their applications were away for too long, are shown for a month. The exit code is
    1 without a durable subscription.

    \b
    Examples:
      distced subscriptions ls
      distced subscriptions ls --watch
      distced subscriptions ls --json
    """

    def see(directory: Directory) -> Seen:
        report = subscriptions_report(directory)
        return Seen(report, lambda now: list(subscriptions_text(report, now)), bool(report.subscriptions))

    with ending(), LiveDirectory(options.server) as reading:
        return show(reading, see, watch=options.watch, as_json=options.as_json)


@dataclass(frozen=True, kw_only=True)
class RemoveOptions:
    """Options of `distced subscriptions rm`."""

    name: Annotated[str, Argument(metavar="NAME", help="Name of the durable subscription.")]
    server: ServerOption = DEFAULT
    as_json: AsJson = False


@subscriptions.command("rm")
@verb
def remove_subscription(options: RemoveOptions) -> int:
    """End a durable subscription for good; what is kept for it is dropped.

    An application that reads it gets an error. The exit code is 2 where there is none of the name.

    \b
    Examples:
      distced subscriptions rm alarms
    """
    name = durable_id(options.name)
    with ending(), LiveDirectory(options.server) as reading:
        report, _ = reading.look(subscriptions_report)
        known = {each.subscription: each for each in report.subscriptions}
        if name not in known:
            allowed = few([each.name for each in report.subscriptions]) or "there is none"
            raise DistcedError("no durable subscription of this name", given=options.name, allowed=allowed)
        reading.publish({directory_topic(kind, name): b"" for kind in OF_DURABLE})
    events = known[name].events
    if options.as_json:
        print_json({"name": options.name, "dropped": events})
    else:
        output().print(f"{options.name} ended, with {events:,} composite events that were kept")
    return 0
