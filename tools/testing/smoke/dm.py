# SPDX-License-Identifier: GPL-2.0
"""For steps of the smoke test: hold up the device "linear", or have parts of it fail or be slow."""

import subprocess


def _dmsetup(*command, lines=None):
    subprocess.run(["dmsetup", *command], input=lines, text=True, check=True)


def suspend(noflush=True):
    """Requests wait from now on; with @noflush also those that have been sent before."""
    _dmsetup("suspend", "--nolockfs", *["--noflush"] * noflush, "linear")


def resume():
    _dmsetup("resume", "linear")


def load(*targets):
    """The next table, for resume(): (first sector, first one behind it, target with arguments)."""
    _dmsetup("load", "linear", lines="".join(f"{begin} {end - begin} {target}\n"
                                             for begin, end, target in targets if end > begin))


def table(*targets, noflush=False):
    """Replace the table."""
    suspend(noflush)
    load(*targets)
    resume()
