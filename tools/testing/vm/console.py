#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Find kernel reports (oops, WARNING, lockdep, KASAN, hung task...) in a console log.

Only lines printed by the kernel count: those carrying a printk time stamp. What the
programs of the guest print does not.
"""

import argparse
import re
import sys

STAMP = re.compile(r"\[\s*\d+\.\d{6}\](?:\[\s*[TC]\d+\])? ?(.*)")

REPORT = re.compile(
    r"""^\s*(?:watchdog:\s|rcu:\s|workqueue:\s)?(?:
      WARNING:\s
    | (?:\[\ )?BUG[:\s]
    | kernel\ BUG\ at\s
    | INFO:\ (?:possible|trying\ to\ register|suspicious|lockdep|rcu_|task\ .*\ blocked)
    | INFO:\ (?:NMI\ handler|inconsistent)
    | (?:KASAN|KCSAN|KMSAN|KFENCE|UBSAN):\s
    | ODEBUG:\s(?!selftest)
    | DEBUG_LOCKS_WARN_ON
    | Oops
    | Internal\ error:\s
    | general\ protection\ fault
    | (?:kernel\ tried|unable\ to\ handle|Unable\ to\ handle)\s
    | Kernel\ (?:panic|mode\ fault|mode\ signal)
    | (?:list_add|list_del)\ corruption
    | refcount_t:\s
    | kmemleak:\ \d+\ new
    | stack\ segment|double\ fault
    )
    | \bAssertion\ fail
    | \b(?:KASAN|KCSAN|UBSAN):\s
    """,
    re.VERBOSE,
)

# Lines that belong to a report are never reports of their own.
CONTEXT_BEFORE = 3
CONTEXT_AFTER = 45


def find_reports(text, ignore=None):
    """Return [(line index, message)] for every line of text that starts a kernel report.

    Messages that match the regular expression @ignore are left out.
    """
    found = []
    for index, line in enumerate(text.splitlines()):
        stamp = STAMP.search(line)
        if stamp and REPORT.search(stamp.group(1)):
            found.append((index, stamp.group(1).strip()))
    return [(index, message) for index, message in found
            if not ignore or not re.search(ignore, message)]


def excerpt(text, index):
    """The lines around a report, enough to hold its stack trace."""
    lines = text.splitlines()
    return lines[max(0, index - CONTEXT_BEFORE):index + CONTEXT_AFTER]


def main():
    parser = argparse.ArgumentParser(
        description="Print the kernel reports in a console log; exit 1 when there is one.")
    parser.add_argument("log")
    args = parser.parse_args()
    with open(args.log, encoding="utf-8", errors="replace") as log:
        text = log.read()
    reports = find_reports(text)
    if not reports:
        return 0
    print(f"{len(reports)} kernel report(s) in {args.log}, the first:")
    print("\n".join(excerpt(text, reports[0][0])))
    return 1


if __name__ == "__main__":
    sys.exit(main())
