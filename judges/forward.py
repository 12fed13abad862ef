"""Forwards TCP connections from one port of this machine to another, until it is killed: a path that can be cut."""

import asyncio
import sys


async def pump(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def main(listen, to):
    async def forward(reader, writer):
        there = await asyncio.open_connection("127.0.0.1", to)
        await asyncio.gather(pump(reader, there[1]), pump(there[0], writer))

    server = await asyncio.start_server(forward, "127.0.0.1", listen)
    print("forwards", flush=True)
    await server.serve_forever()


asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
