# SPDX-License-Identifier: GPL-2.0
"""A worker's operations, on record before they begin and when they have ended.

Each is two lines of JSON, ["begin", kind, *arguments] and ["end", start, end, kind, *arguments],
of which each is written by one write(2), in time for the program that kills the guest.
"""

import json
import os

import model
import workload

# What an operation that failed is noted as.
FAILED = {"write": "maybe_write", "mwrite": "maybe_write", "dwrite": "maybe_write",
          "fallocate": "maybe_fallocate", "truncate": "maybe_truncate", "clone": "maybe_clone"}


class RecordError(Exception):
    """The record is not one of a worker."""


class Recorded(workload.Random):
    """Random operations that are on record at any time."""

    def __init__(self, path, worker, top, profile, seed, features):
        super().__init__(worker, top, lambda _: None, profile, seed, features)
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)

    def note(self, *words):
        line = json.dumps(words).encode() + b"\n"
        if os.write(self.fd, line) != len(line):
            raise RecordError("a line was not written as a whole")

    def sync_less(self, factor):
        self.weights = [weight * factor if kind.startswith(("fsync", "fdatasync", "syncfs"))
                        else weight for kind, weight in zip(self.kinds, self.weights)]

    def attempt(self, kind, args):
        self.note("begin", kind, *args)
        return super().attempt(kind, args)

    def do(self, kind, *args):
        done = super().do(kind, *args)
        self.note("end", *self.operations[-1])
        return done


def parse(text):
    """What a worker did: (operations, numbers of the acknowledged syncs, is the last in flight?).

    An operation in flight may have been done, or not, or data of it in part. Nothing after it was
    synced, so to the model it is one that was done, at the end of time.
    """
    operations, synced, begun = [], set(), None
    # The end of a line that was being written: what it would say has not happened yet.
    for number, line in enumerate(text.split("\n")[:-1], 1):
        try:
            what, *words = json.loads(line)
            if what == "begin" and not begun:
                begun = words
            elif what == "end" and begun and words[2] in (begun[0], "nothing",
                                                          FAILED.get(begun[0])):
                if words[2] in model.SYNCS:
                    synced.add(len(operations))
                operations.append(tuple(words))
                begun = None
            else:
                raise ValueError
        except (ValueError, TypeError, IndexError):
            raise RecordError(f"line {number} of a record makes no sense: {line[:80]}") from None
    if begun:
        operations.append((0, model.ALWAYS, *begun))
    return operations, synced, begun is not None


def acknowledged(operations, synced):
    """Start times of the syncs that were about all that had ended by then."""
    return [operations[n][0] for n in synced if operations[n][2] == "syncfs"]
