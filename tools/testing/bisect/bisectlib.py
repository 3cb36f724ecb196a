# SPDX-License-Identifier: GPL-2.0
"""The decision rule of a bisection by figures, and git bisect in a worktree of its own."""

import os
import re
import subprocess
from bisect import bisect_left, bisect_right
from functools import lru_cache
from math import ceil, comb
from statistics import median

from workbench import die

ERROR = 0.01  # of one decision, all its looks together

# The rank test of Mann and Whitney (Annals of Mathematical Statistics 18, 1947), exact for
# the values at hand, ties included. It assumes nothing about how figures scatter: of two
# commits that do not differ, every order of their boots is equally likely. Drift that both
# see, as their boots are interleaved, only makes false alarms rarer. Looking again after more
# rounds is another chance to be wrong: the looks are few and share ERROR (Bonferroni's
# inequality holds although they share their data). Of 14 rounds that is 0.25 % a look:
# enough to tell a candidate, booted twice a round, from GOOD in 4 rounds (one order of 495),
# and GOOD from BAD in 6 (two of 924).


def looks(maximum):
    """The numbers of rounds after which to decide, like [4, 6, 9, 14], and the error of each."""
    plan = [4]
    while plan[-1] < maximum:
        plan.append(min(maximum, ceil(1.5 * plan[-1])))
    return plan, ERROR / len(plan)


@lru_cache(maxsize=4096)
def _tail(ranks, size, least):
    """Of all subsets of ranks of this size, the share whose sum is at least so much."""
    # ways[n] holds, width bits each, how many subsets of n ranks have the sum 0, 1, 2...
    width = len(ranks) + 1
    ways = [1] + [0] * size
    for rank in ranks:
        for n in range(size, 0, -1):
            ways[n] += ways[n - 1] << rank * width
    return sum(ways[size] >> total * width & (1 << width) - 1
               for total in range(least, sum(ranks) + 1)) / comb(len(ranks), size)


def p_greater(low, high):
    """How likely ranks as favourable to "high is greater" are if there is no difference."""
    both = sorted(low + high)
    # twice the rank, so that the mean rank of equal values is an integer
    rank = {value: bisect_left(both, value) + bisect_right(both, value) + 1 for value in both}
    return _tail(tuple(rank[value] for value in both), len(high),
                 sum(rank[value] for value in high))


def direction(good, bad, limit):
    """1 if bad has the greater figures, -1 if good has, 0 if they do not separate."""
    if 2 * p_greater(good, bad) <= limit:
        return 1
    return -1 if 2 * p_greater(bad, good) <= limit else 0


def side(sign, good, first, second, bad, limit):
    """On which side the candidate (first, second) is; None if it separates from neither.

    Separated from both, it is in between: either half holds a commit that moves the figure.
    """
    good, candidate, bad = (tuple(sign * value for value in values)
                            for values in (good, first + second, bad))
    off_good = p_greater(good, candidate) <= limit
    off_bad = p_greater(candidate, bad) <= limit
    if off_good and off_bad:
        middle = median(candidate)
        return "bad" if middle - median(good) >= median(bad) - middle else "good"
    return "bad" if off_good else "good" if off_bad else None


def git(tree, *args):
    """(status, output) of a git command, the same for every user, as in scripts/lib.sh."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    env.update(GIT_CONFIG_GLOBAL="/dev/null", GIT_CONFIG_NOSYSTEM="1", LC_ALL="C.UTF-8")
    result = subprocess.run(["git", "-C", tree, *args], stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=env)
    return result.returncode, result.stdout.strip()


class Bisection:
    """git bisect without a checkout, in a worktree: its refs and state are that one's alone."""
    def __init__(self, linux, tree, good, bad):
        self.linux, self.tree, self.ends = linux, tree, (good, bad)
        self.candidate, self.found, self.left, self.steps_left = None, None, None, 1

    def __enter__(self):
        self.__exit__()  # what a search left that was killed
        status, output = git(self.linux, "worktree", "add", "-q", "-f", "--detach",
                             "--no-checkout", self.tree, self.ends[1])
        if status:
            die(output, f"see 'git -C {self.linux} worktree list'")
        self.run("start", "--no-checkout", *self.ends[::-1])
        return self

    def __exit__(self, *_):
        git(self.linux, "worktree", "remove", "--force", self.tree)

    def run(self, *args):
        """Start, or give the verdict on a commit, and see where that leads."""
        status, output = git(self.tree, "bisect", *args)
        found = re.search(r"^([0-9a-f]{40,}) is the first bad commit", output, re.M)
        self.found = found and found.group(1)
        if "only 'skip'ped commits left" in output:
            self.left = re.findall(r"^[0-9a-f]{40,}$", output, re.M)
        elif status:
            die(output, f"the bisection is in {self.tree}")
        steps = re.search(r"roughly (\d+) step", output)
        self.steps_left = int(steps.group(1)) + 1 if steps else 1
        self.candidate = None if self.found or self.left else git(
            self.tree, "rev-parse", "BISECT_HEAD")[1]
