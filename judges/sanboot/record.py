"""Records the blocks that a server reads and writes while it boots: forwards iSCSI connections from one port of this
machine to another, and notes each SCSI command with the times at which it passed and its response came back.

  record.py serve LISTEN TO LOG    until it is killed. LOG: issued_us answered_us R|W lba blocks connection
  record.py condense LOG FROM_US UNTIL_US   the trace on the standard output, as scenarios/sanboot_boot.txt explains it

Times are those of the day, in microseconds.
"""

import asyncio
import sys
import time

COMMAND, DATA_IN, RESPONSE, LOGIN_RESPONSE = 0x01, 0x25, 0x21, 0x23
HEADER_BYTES = 48
READS, WRITES = {0x08: 6, 0x28: 10, 0xA8: 12, 0x88: 16}, {0x0A: 6, 0x2A: 10, 0xAA: 12, 0x8A: 16}


def now_us():
    return time.time_ns() // 1000


def blocks_of(cdb):
    """R or W, the first block and how many: None of a command that moves none."""
    for name, lengths in (("R", READS), ("W", WRITES)):
        length = lengths.get(cdb[0])
        if length == 6:
            return name, int.from_bytes(cdb[1:4], "big") & 0x1FFFFF, cdb[4] or 256
        if length == 10:
            return name, int.from_bytes(cdb[2:6], "big"), int.from_bytes(cdb[7:9], "big")
        if length == 12:
            return name, int.from_bytes(cdb[2:6], "big"), int.from_bytes(cdb[6:10], "big")
        if length == 16:
            return name, int.from_bytes(cdb[2:10], "big"), int.from_bytes(cdb[10:14], "big")
    return None


class Connection:
    """The PDUs of one connection, in both directions."""

    def __init__(self, number, log):
        self.number, self.log, self.open, self.digests = number, log, {}, [0, 0]

    def command(self, header, _):
        moved = blocks_of(header[32:48])
        if header[0] & 0x3F == COMMAND and moved:
            self.open[header[16:20]] = (now_us(), *moved)

    def answer(self, header, data):
        opcode = header[0] & 0x3F
        if opcode == LOGIN_RESPONSE:
            for at, name in enumerate((b"HeaderDigest=", b"DataDigest=")):
                if name in data:
                    self.digests[at] = 4 if name + b"CRC32C" in data else 0
        is_last = opcode == RESPONSE or (opcode == DATA_IN and header[1] & 1)
        if is_last and header[16:20] in self.open:
            issued, name, lba, blocks = self.open.pop(header[16:20])
            print(issued, now_us(), name, lba, blocks, self.number, file=self.log, flush=True)


async def pump(reader, writer, connection, seen):
    try:
        while True:
            header = await reader.readexactly(HEADER_BYTES)
            length = int.from_bytes(header[5:8], "big")
            padded = (length + 3) // 4 * 4
            # A login negotiates without digests, and what follows it has them.
            is_login = header[0] & 0x3F in (0x03, LOGIN_RESPONSE)
            of_header, of_data = (0, 0) if is_login else connection.digests
            rest = header[4] * 4 + of_header + padded + (of_data if length else 0)
            data = await reader.readexactly(rest)
            seen(header, data)
            writer.write(header + data)
            await writer.drain()
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    writer.close()


async def serve(listen, to, path):
    connections = []
    with open(path, "w", encoding="ascii") as log:

        async def forward(reader, writer):
            there = await asyncio.open_connection("127.0.0.1", to)
            one = Connection(len(connections), log)
            connections.append(one)
            await asyncio.gather(
                pump(reader, there[1], one, one.command), pump(there[0], writer, one, one.answer)
            )

        server = await asyncio.start_server(forward, "127.0.0.1", listen)
        print("records", flush=True)
        await server.serve_forever()


def condense(path, from_us, until_us):
    """Each command after the one that was answered last before it was issued, and how long after."""
    with open(path, encoding="ascii") as log:
        rows = [line.split() for line in log]
    rows = sorted((int(row[0]), int(row[1]), row[2], row[3], row[4]) for row in rows)
    rows = [row for row in rows if from_us <= row[0] and row[1] <= until_us]
    answered = sorted((row[1], number) for number, row in enumerate(rows))

    def before(moment):
        earlier = [one for one in answered if one[0] <= moment]
        return earlier[-1] if earlier else None

    for number, (issued, _, name, lba, blocks) in enumerate(rows):
        last = before(issued)
        after, think = (number - last[1], issued - last[0]) if last else (0, issued - from_us)
        print(after, think, name, lba, blocks)
    last = before(until_us)
    print(len(rows) - last[1], until_us - last[0], "up")


if sys.argv[1] == "serve":
    asyncio.run(serve(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
else:
    condense(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
