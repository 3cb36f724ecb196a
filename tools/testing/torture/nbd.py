# SPDX-License-Identifier: GPL-2.0
"""A disk with a write-back cache that a power cut empties, served to QEMU over NBD.

A write is answered once it is in the cache; some answers come late, and others overtake them. A
flush puts on the disk what was answered before it came, and nothing else does: what has not been
flushed when the power fails is there, missing or torn, as a seed has it.
"""

import heapq
import itertools
import select
import socket
import struct
import threading
import time

import logwrites
from logwrites import SECTOR, Entry

HELLO, OPTIONS, REPLY = b"NBDMAGIC", b"IHAVEOPT", 0x3e889045565a9
REQUEST, ANSWER = 0x25609513, 0x67446698
GO, ABORT = 7, 2                            # options of the handshake
ACK, INFO, UNSUPPORTED = 1, 3, 0x80000001   # answers to them
HAS_FLAGS, SEND_FLUSH = 1, 4
READ, WRITE, DISCONNECT, FLUSH = range(4)
LATE = 0.3                  # of the answers to writes and flushes come late,
LATEST = 0.02               # up to as many seconds
NOTHING = 0.1               # of the cuts leave nothing of what is in the cache


class Disk:
    """What is on the disk, what is in its cache, and what the guest sees."""

    def __init__(self, image, lie=False):
        self.stable, self.seen = bytearray(image), bytearray(image)
        self.pending = []       # writes that are in the cache, the oldest first
        self.late = set()       # those of them that were not answered yet
        self.lie = lie          # say that all was flushed, once begin() was called
        self.began = False
        self.writes = self.flushes = 0

    def begin(self):
        """What is done from now on is looked at after the cut."""
        self.writes = self.flushes = 0
        self.began = True

    def read(self, pos, size):
        return self.seen[pos:pos + size]

    def write(self, pos, data):
        entry = Entry(pos, len(data), 0, data)
        self.seen[pos:pos + len(data)] = data
        self.pending.append(entry)
        self.late.add(entry)
        self.writes += 1
        return entry

    def answered(self, entry):
        self.late.discard(entry)

    def flush(self):
        self.flushes += 1
        if self.lie and self.began:
            return
        for entry in self.pending:
            if entry not in self.late:
                logwrites.apply(self.stable, entry)
        self.pending = [entry for entry in self.pending if entry in self.late]

    def cut(self, rng, unit):
        """The power fails: (image, how many writes are not all there, what became of the rest)."""
        image, kind = bytearray(self.stable), "nothing"
        if rng.random() >= NOTHING:
            kind, _ = logwrites.partial(image, self.pending, rng, unit)
        lost = sum(image[e.pos:e.pos + e.size] != self.seen[e.pos:e.pos + e.size]
                   for e in self.pending)
        return image, lost, kind


class Server(threading.Thread):
    """Serves a disk to one client, on a socket in the file system, until it goes or stop()."""

    def __init__(self, disk, path, rng):
        super().__init__(daemon=True)
        self.disk, self.rng = disk, rng
        self.left = None                    # requests that are still served, if it is to stop,
        self.least = 0                      # and writes that must be in the cache then
        self.stopped = threading.Event()    # it serves no more
        self.failure = None
        self.answers, self.numbers = [], itertools.count()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.client = None
        self.start()

    def run(self):
        try:
            self.client, _ = self.listener.accept()
            self.shake_hands()
            while self.one():
                pass
        except (EOFError, ConnectionError):
            pass        # The client is gone.
        except (OSError, ValueError, struct.error) as error:
            self.failure = error
        finally:
            self.stopped.set()

    def stop(self, after, least=0):
        """Serve so many requests more, and others until so many writes are in the cache; then
        none. The client waits for answers for ever."""
        self.least = least
        self.left = after

    def close(self):
        """The client is gone, or will never come."""
        if not self.client:
            # Wakes up accept().
            self.listener.shutdown(socket.SHUT_RDWR)
        self.join()
        self.listener.close()
        if self.client:
            self.client.close()

    def receive(self, size):
        data = bytearray()
        while len(data) < size:
            part = self.client.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def shake_hands(self):
        """Agree on what is served: this disk, whatever name is asked for."""
        self.client.sendall(HELLO + OPTIONS + struct.pack(">H", 3))
        self.receive(4)
        while True:
            magic, option, length = struct.unpack(">8sII", self.receive(16))
            self.receive(length)
            if magic != OPTIONS:
                raise ValueError("the client does not speak NBD")
            if option == GO:
                break
            self.reply(option, ACK if option == ABORT else UNSUPPORTED)
        self.reply(GO, INFO, struct.pack(">HQH", 0, len(self.disk.seen), HAS_FLAGS | SEND_FLUSH))
        self.reply(GO, ACK)

    def reply(self, option, kind, data=b""):
        self.client.sendall(struct.pack(">QIII", REPLY, option, kind, len(data)) + data)

    def one(self):
        """Take a request, or answer one that had to wait; returns False at the end."""
        wait = 0.05
        if self.answers:
            wait = max(0, min(wait, self.answers[0][0] - time.monotonic()))
        ready = select.select([self.client], [], [], wait)[0]
        if self.left is not None and self.left <= 0 and len(self.disk.pending) >= self.least:
            return False
        while self.answers and self.answers[0][0] <= time.monotonic():
            _, _, cookie, entry = heapq.heappop(self.answers)
            if entry:
                self.disk.answered(entry)
            self.answer(cookie)
        if not ready:
            return True
        try:
            magic, _, kind, cookie, pos, size = struct.unpack(">IHHQQI", self.receive(28))
            data = self.receive(size) if kind == WRITE else b""
        except (EOFError, ConnectionError):
            return False
        if magic != REQUEST or kind > FLUSH or (pos | size) % SECTOR or \
                kind <= WRITE and pos + size > len(self.disk.seen):
            raise ValueError(f"a request that makes no sense: {kind} at {pos}, {size} bytes")
        if self.left is not None:
            self.left -= 1
        return self.serve(kind, cookie, pos, size, data)

    def serve(self, kind, cookie, pos, size, data):
        if kind == DISCONNECT:
            return False
        if kind == READ:
            self.answer(cookie, self.disk.read(pos, size))
        else:
            entry = self.disk.write(pos, data) if kind == WRITE else self.disk.flush()
            late = self.rng.random() * LATEST if self.rng.random() < LATE else 0
            heapq.heappush(self.answers, (time.monotonic() + late, next(self.numbers), cookie,
                                          entry))
        return True

    def answer(self, cookie, data=b""):
        self.client.sendall(struct.pack(">IIQ", ANSWER, 0, cookie) + data)


def drive(path):
    """What QEMU is told, to have the disk that is served there."""
    return f"-drive file=nbd+unix:///?socket={path},format=raw,if=virtio,cache=writeback"
