# SPDX-License-Identifier: GPL-2.0
"""What is at an address of the kernel: symbol, or struct and field; and what code is there.

nm and addr2line (binutils) and pahole (dwarves) read the kernel's debug information.
"""

import bisect
import re
import subprocess

# The struct that a slab cache holds, where the cache has another name.
CACHE_STRUCT = {
    "jbd2_journal_head": "journal_head",
    "jbd2_transaction_s": "transaction_s",
    "jbd2_inode": "jbd2_inode",
    "ext4_inode_cache": "ext4_inode_info",
    "ext4_groupinfo_4k": "ext4_group_info",
    "bdev_cache": "bdev_inode",
    "inode_cache": "inode",
    "filp": "file",
    "xfs_ili": "xfs_inode_log_item",
    "xfs_buf_item": "xfs_buf_log_item",
}
# struct page is the unit of the memory map; it starts here without KASLR.
VMEMMAP = 0xffffea0000000000
VMEMMAP_END = 0xffffeb0000000000
PAGE_STRUCT = 64
SLAB = re.compile(r"slab (\S+) start ([0-9a-f]+)(?: data offset (\d+))? pointer offset (\d+) "
                  r"size (\d+)")
MEMBER = re.compile(r"([A-Za-z_]\w*)(?:\)\(.*\))?(?:\[[^\]]*\])*(?::\d+)?;"
                    r"\s*/\*\s*(\d+)(?::\s*\d+)?\s+(\d+)\s*\*/")
TOP_LEVEL = re.compile(r"^(?=(?:struct|union) \w+ \{)", re.MULTILINE)
ATTRIBUTE = re.compile(r"\s*__attribute__\(\((?:[^()]|\([^()]*\))*\)\)")
# What a lock or counter is made of says nothing.
INSIDES = re.compile(r"\.(raw_lock|rlock|cnts|val|counter|refs|owner|wait_lock|osq)\b.*$")
DIRECTORIES = "arch|block|drivers|fs|include|init|kernel|lib|mm|net|security"


def output(*command, stdin=None):
    return subprocess.run(command, input=stdin, stdout=subprocess.PIPE, check=True,
                          stderr=subprocess.DEVNULL, encoding="utf-8").stdout


class Symbols:
    """Data symbols of vmlinux."""

    def __init__(self, vmlinux, read=output):
        self.symbols = []
        bounds = {}
        for line in read("nm", "-S", "-n", vmlinux).splitlines():
            words = line.split()
            if len(words) == 4 and words[2] in "bBdDrRVv" and int(words[1], 16):
                self.symbols.append((int(words[0], 16), int(words[1], 16), words[3]))
            elif words[-1] in ("__per_cpu_start", "__per_cpu_end"):
                bounds[words[-1]] = int(words[0], 16)
        self.starts = [start for start, _, _ in self.symbols]
        self.percpu = range(bounds.get("__per_cpu_start", 0), bounds.get("__per_cpu_end", 0))

    def at(self, vaddr):
        """Name and offset, or None."""
        i = bisect.bisect_right(self.starts, vaddr) - 1
        if i < 0:
            return None
        start, size, name = self.symbols[i]
        return (name, vaddr - start) if vaddr < start + size else None


class Structs:
    """Members of structs by offset, as pahole -E prints them."""

    def __init__(self, vmlinux, read=output):
        self.vmlinux = vmlinux
        self.read = read
        self.known = {}

    def load(self, structs):
        """Look structs up, all at once: pahole reads the debug information of the whole kernel."""
        wanted = sorted(struct for struct in structs
                        if struct not in self.known and struct.isidentifier())
        self.known.update((struct, []) for struct in structs if struct not in self.known)
        if wanted:
            text = self.read("pahole", "-E", "--skip_missing", "-C", ",".join(wanted),
                             self.vmlinux)
            for part in TOP_LEVEL.split(text)[1:]:
                self.known[part.split()[1]] = parse_pahole(part)

    def field(self, struct, offset):
        """The innermost member of struct that holds the byte at offset, or None."""
        best = None
        self.load([struct])
        for start, size, name in self.known[struct]:
            if start <= offset < start + size and (best is None or size <= best[1]):
                best = (start, size, name)
        return INSIDES.sub("", best[2]) if best else None


def parse_pahole(text):
    """[(offset, size, dotted name)] of every member, outer and inner."""
    members, open_at = [], []
    for line in text.splitlines():
        stripped = ATTRIBUTE.sub("", line).strip()
        if re.match(r"(struct|union|enum)\b[^;]*\{", stripped) or stripped.endswith("{"):
            open_at.append(len(members))
            continue
        if stripped.startswith("}"):
            if not open_at:
                continue
            first = open_at.pop()
            found = MEMBER.search(stripped)
            if found and open_at:
                name, start, size = found.group(1), int(found.group(2)), int(found.group(3))
                members[first:] = [(o, s, f"{name}.{n}") for o, s, n in members[first:]]
                members.append((start, size, name))
            continue
        found = MEMBER.search(stripped)
        if found and open_at:
            members.append((int(found.group(2)), int(found.group(3)), found.group(1)))
    return members


class Places:
    """Functions and lines of code, for as many addresses as possible at once."""

    def __init__(self, vmlinux, addresses):
        self.known = {}
        addresses = sorted(addresses)
        text = output("addr2line", "-a", "-i", "-f", "-e", vmlinux,
                      stdin="".join(f"{a:#x}\n" for a in addresses))
        current, pending = None, None
        for line in text.splitlines():
            if line.startswith("0x"):
                current = int(line, 16)
                self.known[current] = []
                pending = None
            elif pending is None:
                pending = line
            else:
                self.known[current].append((pending, self._tidy(line)))
                pending = None

    @staticmethod
    def _tidy(where):
        where = re.sub(r" \(discriminator \d+\)$", "", where)
        return re.sub(rf"^.*?/(?=(?:{DIRECTORIES})/)", "", where)

    def at(self, pc):
        """(function, file:line): the innermost that is not a helper of a header."""
        frames = [f for f in self.known.get(pc, []) if f[0] != "??"]
        for function, where in frames:
            if not where.startswith(("include/", "arch/")):
                return function, where
        return frames[-1] if frames else ("jbench", "")


class Attribution:
    """Names for the lines of a table."""

    def __init__(self, kernel, run):
        self.symbols, self.structs = kernel
        self.objects = [(int(o["address"], 16), o["size"], o["type"]) for o in run["objects"]]
        self.identified = {int(a, 16): said for a, said in run["identified"].items()}
        self.percpu_offsets = [int(offset, 16) for offset in run["percpu_offsets"]]

    def _object(self, vaddr, said):
        """(struct, address of its first byte), or None."""
        for start, size, name in self.objects:
            if start <= vaddr < start + size:
                return name, start
        if VMEMMAP <= vaddr < VMEMMAP_END:
            return "page", vaddr // PAGE_STRUCT * PAGE_STRUCT
        found = SLAB.match(said)
        if found:
            cache, start, data = found.group(1), int(found.group(2), 16), found.group(3)
            return CACHE_STRUCT.get(cache, cache), start + int(data or 0)
        return None

    def _percpu(self, vaddr):
        """What symbols.at() says of the per-CPU variable of which vaddr is a CPU's copy."""
        for offset in self.percpu_offsets:
            original = (vaddr - offset) % 2 ** 64
            if original in self.symbols.percpu:
                return self.symbols.at(original)
        return None

    def load(self, places):
        """Look up what name() needs for these (line, offset)."""
        found = (self._object(line.vaddr + offset, self.identified.get(line.paddr + offset, ""))
                 for line, offset in places)
        self.structs.load({struct for struct, _ in filter(None, found)})

    def name(self, line, offset):
        """What the byte at offset of the line is: (object, field)."""
        vaddr = line.vaddr + offset
        said = self.identified.get(line.paddr + offset, "")
        found = self._object(vaddr, said)
        if found:
            struct, start = found
            field = self.structs.field(struct, vaddr - start)
            return struct, field or f"+{vaddr - start}"
        symbol = self.symbols.at(vaddr)
        if symbol:
            name, at = symbol
            return name, f"+{at}" if at else ""
        symbol = self._percpu(vaddr)
        if symbol:
            return f"per-CPU {symbol[0]}", f"+{symbol[1]}"
        if said.startswith("page "):
            return "data of " + said[len("page "):], f"+{vaddr % 4096}"
        return said or "unknown", f"{vaddr:x}"
