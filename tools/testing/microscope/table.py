# SPDX-License-Identifier: GPL-2.0
"""The plugin's table: which cache lines CPUs share, and how much of it an operation does."""

from collections import Counter, defaultdict

LINE = 64


class Line:
    """A cache line and what was done to it, all CPUs together."""

    def __init__(self, paddr):
        self.paddr = paddr
        self.vaddr = None
        self.readers, self.writers = set(), set()
        self.reads = self.writes = self.atomics = 0
        self.written_ops = 0
        self.places = defaultdict(Counter)  # (pc, offset in line, size) -> kind -> count

    @property
    def shared(self):
        """Written by one CPU and touched by another."""
        return bool(self.writers) and len(self.writers | self.readers) > 1


class Table:
    """Lines by physical address, and the number of operations they were counted in."""

    def __init__(self, rows):
        self.lines = {}
        self.ops = 0
        self.counted = {}       # operations by CPU
        # Where everything on all CPUs was counted, operations cannot be told apart.
        self.at_most = None
        for number, row in enumerate(rows, 1):
            try:
                self._add(row.split())
            except (KeyError, ValueError, IndexError) as error:
                raise ValueError(f"line {number} of the table: {row.strip()!r}") from error
        if not self.ops or self.at_most is None:
            raise ValueError("the table has no operation, or does not say what was counted")
        if self.at_most:
            for line in self.lines.values():
                line.written_ops = min(self.ops, line.writes + line.atomics)

    def _add(self, words):
        if words[0] == "scope":
            self.at_most = {"op": False, "all": True}[words[1]]
            return
        if words[0] == "ops":
            self.counted[int(words[1])] = int(words[2])
            self.ops += int(words[2])
            return
        cpu, size, kind, count = int(words[0]), int(words[4]), words[5], int(words[6])
        pc, paddr, vaddr = (int(word, 16) for word in words[1:4])
        first = paddr // LINE * LINE
        # An access may straddle two lines.
        for base in range(first, paddr + size, LINE):
            line = self.lines.setdefault(base, Line(base))
            if kind == "L":
                line.written_ops += count
                continue
            if line.vaddr is None:
                line.vaddr = vaddr - paddr + base
            if kind == "r":
                line.readers.add(cpu)
                line.reads += count
            else:
                line.writers.add(cpu)
                if kind == "a":
                    line.atomics += count
                elif kind == "w":
                    line.writes += count
                else:
                    raise ValueError(f"kind {kind}")
            line.places[pc, max(paddr - base, 0), size][kind] += count

    def shared(self):
        """Shared lines, busiest first."""
        found = [line for line in self.lines.values() if line.shared]
        return sorted(found, key=lambda line: (-line.atomics, -line.writes, -line.reads,
                                               line.paddr))

    def summary(self):
        """What is to be driven down: shared lines written and shared RMWs per operation."""
        shared = self.shared()
        return {
            "ops": self.ops, "at_most": self.at_most,
            "lines_written": sum(line.written_ops for line in shared) / self.ops,
            "atomics": sum(line.atomics for line in shared) / self.ops,
            "writes": sum(line.writes for line in shared) / self.ops,
            "reads": sum(line.reads for line in shared) / self.ops,
        }
