"""An application at a site: a door with a motion detector, and a subscriber to the persons that enter.

    python application.py DIRECTORY HOME

DIRECTORY is the MQTT server that all are connected to, HOME the one of the site. The pattern is detected wherever
its distribution policy has put it, and nothing here depends on where that is.
"""

from __future__ import annotations

import itertools
import sys
import time

from distced import Client, QualityOfService, event_type

PATTERN = "[Motion as m] ; [Door where room == m.room] within 1min -> Entered(room = m.room)"


def main(directory: str, home: str) -> None:
    """Publish a motion and a door every second, and print what is detected, until interrupted."""
    with Client(directory, home=home, name="application") as client:
        client.wait_for_nodes(1, timeout=120)
        client.register(event_type("Motion", {"room": "string"}), event_type("Door", {"room": "string"}))
        now = time.time_ns()
        source = client.source("hall", ["Motion", "Door"], watermark=now)
        subscription = client.subscribe(PATTERN, quality=QualityOfService(distribution="min-latency"))
        print(f"detected by {subscription.node}", flush=True)
        for number in itertools.count():
            now = max(time.time_ns(), now + 2)
            room = f"room {number % 3}"
            source.publish(source.create("Motion", now, room=room), watermark=now)
            source.publish(source.create("Door", now + 1, room=room), watermark=now + 1)
            while (event := subscription.get(1.0)) is not None:
                print(event.type, event.attributes["room"], flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
