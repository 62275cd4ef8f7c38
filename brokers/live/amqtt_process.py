"""Program of the embedded MQTT server: amqtt, in pure Python, in a separate process (no shared interpreter lock).

Run as `python -m distced.brokers.live.amqtt_process HOST PORT` by `brokers.live.mqtt_server`; ends with its standard
input, hence with its parent.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any


def main(host: str, port: int) -> None:
    """Serve MQTT 3.1.1 at this address until standard input ends."""
    # amqtt logs every packet, and each ordinary disconnection as a warning.
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(name)s: %(message)s")
    for noisy in ("amqtt", "transitions", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    asyncio.run(_serve(host, port))


async def _serve(host: str, port: int) -> None:
    from amqtt.broker import Broker  # type: ignore[import-untyped]

    configuration: dict[str, Any] = {
        "listeners": {"default": {"type": "tcp", "bind": f"{host}:{port}"}},
        # The default plug-ins also log every event and publish $SYS topics.
        "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
    }
    broker = Broker(configuration)
    await broker.start()
    try:
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)
    finally:
        await broker.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
