"""Wide-area link between two sites: forwards connections to the MQTT server of the other one, late and not too fast.

    python link.py TOPOLOGY SITE OTHER

It runs in a container on the networks of both sites, where it has the name of the other site's server. Latency and
bandwidth are those of the topology. All connections of a direction share its bandwidth; a chunk leaves once those
before it are sent, and arrives after the latency. What is read waits in a short queue, and then the sender does.

netem of the kernel was rejected: it needs a privilege (NET_ADMIN), and many kernels, of small virtual machines above
all, lack it. So links lose no packets and reorder none: to MQTT, TCP hides both, as longer delays.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from dataclasses import dataclass
from typing import Final

from distced.middleware.model.timestamps import SECOND
from distced.policies.topology.model import Place
from distced.policies.topology.topology_file import load_topology

PORT: Final = 8883

CHUNK: Final = 16 * 1024
"""Bytes read at once."""

WAITING: Final = 64
"""Chunks of a connection that are under way at most, in each direction: 1 MB."""


@dataclass
class Direction:
    """One direction of the link.

    Attributes:
        latency: s.
        bandwidth: bytes per second; None for no limit.
        free: time of the loop at which everything accepted so far is sent, s.
    """

    latency: float
    bandwidth: float | None
    free: float = 0.0

    def arrival(self, size: int, now: float) -> float:
        """Time at which n bytes arrive that are sent now."""
        self.free = max(self.free, now) + (size / self.bandwidth if self.bandwidth else 0.0)
        return self.free + self.latency

    async def forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward to the end of what is sent, and hand that on; abort where the connection is lost."""
        clock = asyncio.get_running_loop().time
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(WAITING)

        async def send() -> None:
            while True:
                chunk = await reader.read(CHUNK)
                await under_way.put((self.arrival(len(chunk), clock()), chunk))
                if not chunk:
                    return

        async def arrive() -> None:
            while True:
                due, chunk = await under_way.get()
                await asyncio.sleep(due - clock())
                if not chunk:
                    return
                writer.write(chunk)
                await writer.drain()

        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(send())
                tasks.create_task(arrive())
            writer.write_eof()
        except* OSError:
            writer.transport.abort()


async def serve(here: str, there: str, forth: Direction, back: Direction) -> None:
    """Accept connections on the network of one server, and forward them to the other."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far, answer = await asyncio.open_connection(there, PORT)
        except OSError:
            writer.transport.abort()
            return
        await asyncio.gather(forth.forward(reader, answer), back.forward(far, writer))
        answer.close()
        writer.close()

    async with await asyncio.start_server(connected, own_address(here), PORT) as server:
        await server.serve_forever()


def own_address(neighbour: str) -> str:
    """Address of this container on the network of a neighbour."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((neighbour, PORT))
        address: str = probe.getsockname()[0]
        return address


async def main(path: str, site: str, other: str) -> None:
    """Serve both directions until an interrupt."""
    topology = load_topology(path)
    ends = Place("site", site), Place("site", other)
    links = [topology.graph.edges[pair]["link"] for pair in (ends, ends[::-1])]
    forth, back = (Direction(link.latency / SECOND, link.bandwidth) for link in links)
    # Links have the servers' names on the network of the other site, so this is what the servers are called by links.
    near, far = f"mosquitto-{site}", f"mosquitto-{other}"
    await asyncio.gather(serve(near, far, forth, back), serve(far, near, back, forth))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
