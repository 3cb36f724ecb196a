# SPDX-License-Identifier: GPL-2.0
"""Power cuts on their way from the kernel that wrote them to the one that recovers from them.

A round is a file with the device before it and what the workers did; a cut is one with the blocks
that differ from that device, and the marks of what was acknowledged. Of the device there are the
blocks that differ from what it was filled with: much new memory takes user-mode Linux long.
"""

import glob
import os
import pickle
import random
import zlib

import logwrites

BLOCK = 4096


class KeptError(Exception):
    """What was kept is not for this kernel."""


def changes(base, image):
    """{position: block} of what is not as it was."""
    before, now = memoryview(base), memoryview(image)
    return {at: bytes(now[at:at + BLOCK]) for at in range(0, len(now), BLOCK)
            if now[at:at + BLOCK] != before[at:at + BLOCK]}


def change(image, blocks):
    """Put blocks into an image; returns those that were there."""
    before = {at: bytes(image[at:at + len(block)]) for at, block in blocks.items()}
    for at, block in blocks.items():
        image[at:at + len(block)] = block
    return before


def put(path, value):
    """Write a file so that it is whole, or not there."""
    with open(path + ".tmp", "wb") as file:
        file.write(zlib.compress(pickle.dumps(value), 1))
    os.replace(path + ".tmp", path)


def get(path):
    with open(path, "rb") as file:
        return pickle.loads(zlib.decompress(file.read()))


class Keeper:
    """Keeps the cuts of one round."""

    def __init__(self, directory, number, base, fill, **facts):
        self.path = os.path.join(directory, f"{number:04}")
        self.base, self.count = base, 0
        put(self.path + ".round", {"kernel": os.uname().version, "size": len(base), "fill": fill,
                                   "base": changes(fill * len(base), base), **facts})

    def keep(self, cut):
        put(f"{self.path}.{self.count:04}.cut",
            (cut.entry, cut.marks, cut.kind, changes(self.base, cut.image)))
        self.count += 1


def rounds(directory):
    """Yield (facts, cuts) of the rounds that another kernel kept. Cuts are in a random order: there
    may not be time for all. The image of one is valid until the next one is asked for."""
    for path in sorted(glob.glob(os.path.join(directory, "*.round"))):
        facts = get(path)
        if facts["kernel"] == os.uname().version:
            raise KeptError(f"the kernel that recovers is the one that wrote: {facts['kernel']}")
        paths = sorted(glob.glob(path.removesuffix(".round") + ".*.cut"))
        random.Random(facts["seed"]).shuffle(paths)
        yield facts, _cuts(facts, paths)


def _cuts(facts, paths):
    image = bytearray(facts["fill"]) * facts["size"]
    change(image, facts["base"])
    for path in paths:
        entry, marks, kind, blocks = get(path)
        before = change(image, blocks)
        yield logwrites.Cut(entry, marks, kind, image)
        change(image, before)
