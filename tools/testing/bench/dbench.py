# SPDX-License-Identifier: GPL-2.0
"""dbench from a recipe."""

import contextlib
import os
import re

import benchlib

CLIENT = "/usr/share/dbench/client.txt"
FIRST, PASS = 'NTCreateX "\\clients\\client1\\~dmtmp\\WORD" ', '~dmtmp\\PWRPNT\\PCBENCHM" '


def cut_load(path):
    """Write a short load to path, that clients go through many times.

    dbench's is 5 MiB of filler, the same work 128 times over, and takes a client minutes:
    what is measured in seconds is its beginning. Of it this is the directories, the files in
    them and the work, once, without the filler.
    """
    with open(CLIENT, encoding="utf-8") as file:
        lines = file.read().splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(FIRST))
    # Each pass through the work begins with a look for this file.
    passes = [i for i, line in enumerate(lines) if PASS in line and
              line.startswith("QUERY_PATH_INFORMATION") and "NOT_FOUND" in line]
    kept = [line for line in lines[:first] if line.startswith(("Deltree", "Mkdir"))]
    kept += ['NTCreateX "\\clients\\client1" 0x1 0x2 1 NT_STATUS_OK', "Close 1 NT_STATUS_OK",
             'NTCreateX "\\clients\\client1\\~dmtmp" 0x1 0x2 2 NT_STATUS_OK',
             "Close 2 NT_STATUS_OK", *lines[first:passes[1]], lines[-1]]
    with open(path, "w", encoding="utf-8") as out:
        out.write("\n".join(kept) + "\n")


def run(context, clients, seconds, watch=contextlib.nullcontext()):
    """Run dbench: (what it said, what was counted, operations).

    MB/s are of the last seconds - 1; operations are all, with those of the removal at the end.
    """
    context.begin()
    with watch:
        text = context.run("dbench", "-t", seconds, "-D", context.fs.new_dir(), "-c",
                           os.path.join(context.tools, "dbench.load"), clients)
    counted = context.end()
    rate = re.search(r"^Throughput ([0-9.]+) MB/sec", text, re.MULTILINE)
    ops = sum(int(count) for count in
              re.findall(r"^ [A-Z]\w+ +(\d+) +[0-9.]+ +[0-9.]+$", text, re.MULTILINE))
    if not rate or not float(rate.group(1)) or not ops:
        raise benchlib.BenchError(f"dbench said: {text[-300:]}")
    # dbench takes 0, the id of a boot's first semaphore, for a failure, and goes on.
    wrong = re.search(r"^(?!failed to create barrier).*(?:failed|ERROR|expected).*$", text,
                      re.MULTILINE)
    if wrong:
        raise benchlib.BenchError(f"dbench: {wrong.group(0)}")
    return {"MB/s": float(rate.group(1)), "text": text[-2000:]}, counted, ops
