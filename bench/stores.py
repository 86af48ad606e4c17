"""What a store on a Redis server costs: CPU time of the gateway for a stream, as a ratio to SQLite.

    python bench/stores.py [STREAMS]

Two gateways serve the same structured streams in turn, one on files and one on a Redis server of
this machine: 400 deltas of 400 bytes each, whose events are all written to the store. Rounds are
interleaved, so that a busy machine changes both figures.
"""

import asyncio
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.store_servers import RedisProcess, redis_program

from bench.streams import DELTAS, Reader, Server, cpu_of, model

ROUNDS = 7
AT_ONCE = 10


async def streams(server: Server, count: int) -> float:
    """Return the CPU time of one stream, in milliseconds."""
    before = server.cpu
    for start in range(1, count + 1, AT_ONCE):
        readers = [Reader(number, server.port) for number in range(start, start + AT_ONCE)]
        await asyncio.gather(*(reader.start() for reader in readers))
        faults = [fault for fault in await asyncio.gather(*(r.finish() for r in readers)) if fault]
        assert not faults, faults
    return (server.cpu - before) * 1000 / count


async def main() -> int:
    if redis_program() is None:
        print("skipped: neither valkey-server nor redis-server is installed")
        return 0
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    mock = await asyncio.start_server(model, "127.0.0.1", 0, backlog=4096)
    port, redis = mock.sockets[0].getsockname()[1], RedisProcess(durable=False)
    servers = {
        "SQLite": Server("mock/m", port),
        "Redis": Server("mock/m", port, first=f'store = "{redis.url}"\n'),
    }
    try:
        found: dict[str, list[float]] = {name: [] for name in servers}
        at_server = cpu_of(redis.pid)
        for round in range(ROUNDS + 1):
            for name, server in servers.items():
                cost = await streams(server, count)
                if round:  # the first one warms up
                    found[name].append(cost)
        at_server = (cpu_of(redis.pid) - at_server) * 1000 / (count * (ROUNDS + 1))
    finally:
        for server in servers.values():
            server.close()
        redis.close()
        mock.close()
    middle = {name: statistics.median(times) for name, times in found.items()}
    print(f"CPU of the gateway for a stream of {DELTAS} deltas, median of {ROUNDS} rounds:")
    for name, cost in middle.items():
        print(f"  {name:<7} {cost:.2f} ms")
    print(f"  ratio Redis / SQLite {middle['Redis'] / middle['SQLite']:.3f}")
    print(f"  CPU of the Redis server itself {at_server:.2f} ms a stream")
    return 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
