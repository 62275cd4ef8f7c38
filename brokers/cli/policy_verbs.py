"""The verb `policy`, which has verbs of its own: `set`, `show` and `unset`.

What takes time to import is imported inside the verb that needs it.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from distced.middleware.cli.options import DEFAULT, ServerOption
from distced.middleware.cli.output import AsJson

policy = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Say where detectors are to stand: set, show and unset distribution policies.",
)

OfPattern: TypeAlias = Annotated[
    str | None, typer.Option("--pattern", metavar="PATTERN", help="Of the detector of this pattern only.")
]
OfDetector: TypeAlias = Annotated[
    str | None, typer.Option("--detector", metavar="DETECTOR-PREFIX", help="Of the detector whose id begins so only.")
]


@policy.command("set")
def set_policy(
    name: Annotated[
        str,
        typer.Argument(
            metavar="POLICY", help="Its name, or the three words of its dimensions in quotes.", show_default=False
        ),
    ],
    pattern: OfPattern = None,
    detector: OfDetector = None,
    server: ServerOption = DEFAULT,
    as_json: AsJson = False,
) -> int:
    """Set the distribution policy of one detector, or of all whose subscriptions ask for none.

    It holds from now on, also for detectors that run: they move where it wants them, if that pays. What is set for a
    detector counts before what its subscriptions ask for. Broker nodes are told through the server, which keeps it. The
    exit code is 2 for what is no policy, and for a detector that is not there.

    \b
    Examples:
      distced policy set min-bandwidth
      distced policy set max-reliability --detector c52925
      distced policy set 'for-reuse maximum subscribers' --pattern '[Motion] ; [Door]'
    """
    from distced.brokers.cli.policy import set_one

    return set_one(server, name, pattern, detector, as_json=as_json)


@policy.command("show")
def show_policies(server: ServerOption = DEFAULT, as_json: AsJson = False) -> int:
    """Show the distribution policies that are set.

    \b
    Examples:
      distced policy show
      distced policy show --json
    """
    from distced.brokers.cli.policy import show_all

    return show_all(server, as_json=as_json)


@policy.command("unset")
def unset_policy(
    pattern: OfPattern = None, detector: OfDetector = None, server: ServerOption = DEFAULT, as_json: AsJson = False
) -> int:
    """Take back what was set: of one detector, or of all.

    What subscriptions ask for holds again. The exit code is 2 where nothing was set.

    \b
    Examples:
      distced policy unset
      distced policy unset --detector c52925
    """
    from distced.brokers.cli.policy import unset_one

    return unset_one(server, pattern, detector, as_json=as_json)
