# SPDX-License-Identifier: GPL-2.0
"""What the tools that boot kernels share: progress, errors, finished builds, modules."""

import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import time

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
BUILD = os.path.realpath(os.path.join(TOP, os.environ.get("O") or "build"))
BOOT = os.path.join(TOP, "tools/testing/vm/boot")
IMAGES = {"uml": ("um", "linux"), "x86_64": ("x86_64", "arch/x86/boot/bzImage")}
# The distribution's kernel, which scripts/modules-kernels takes, and the modules it is booted with.
DEBIAN = "x86_64", "vmlinuz"
BEGIN = time.monotonic()


def step(text):
    seconds = int(time.monotonic() - BEGIN)
    print(f"==> [{seconds // 60}:{seconds % 60:02}] {text}", file=sys.stderr, flush=True)


def die(what, next_step):
    print(f"error: {what}\n  next: {next_step}", file=sys.stderr)
    sys.exit(1)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def write(path, text):
    """Write a file so that it is whole, or as it was before."""
    with open(path + ".tmp", "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(path + ".tmp", path)


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def child(command, **options):
    """Like subprocess.call(), but a caller that ends early lets the program clean up first."""
    with subprocess.Popen(command, **options) as process:
        try:
            return process.wait()
        except BaseException as reason:
            if not isinstance(reason, KeyboardInterrupt):   # that the terminal sent to both
                process.terminate()
            process.wait()
            raise


def exit_on_sigterm():
    """Have SIGTERM end this program as an exception does."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))


def call(command, log, what):
    """Run a command whose output is only of interest when it fails."""
    with open(log, "w", encoding="utf-8") as out:
        try:
            status = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=out,
                                     stderr=subprocess.STDOUT)
        except OSError as error:
            die(f"cannot run {command[0]}: {error.strerror}", "run scripts/setup")
    if status:
        with open(log, encoding="utf-8", errors="replace") as out:
            print(*out.readlines()[-20:], sep="", file=sys.stderr)
        die(what, f"see {log}")


def find_kernel(name):
    """What is known about the finished build O/obj/NAME."""
    obj = os.path.join(BUILD, "obj", name)
    try:
        with open(os.path.join(obj, ".stamp"), encoding="utf-8") as stamp:
            commit, kind = stamp.readline().split()
    except (OSError, ValueError):
        die(f"there is no finished kernel {name} in {BUILD}/obj", "make kernels")
    arch, image = DEBIAN if kind == "debian" else IMAGES[kind]
    image = os.path.join(obj, image)
    initrd = os.path.join(obj, "initrd")
    return {"name": name, "commit": commit, "platform": kind, "arch": arch, "obj": obj,
            "image": image,
            "image_sha256": sha256(initrd if kind == "debian" else image),
            "config_sha256": sha256(os.path.join(obj, ".config"))}


def build_module(kernel):
    """Build jbench against exactly the sources that the kernel was built from."""
    out = os.path.join(BUILD, "jbench", kernel["name"])
    log = os.path.join(BUILD, "log", f"jbench-{kernel['name']}.log")
    # kbuild does not notice all that another configuration changes in a module.
    made_for = os.path.join(out, ".made-for")
    if not os.path.exists(made_for) or read(made_for) != kernel["image_sha256"]:
        shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out, exist_ok=True)
    with open(made_for, "w", encoding="ascii") as file:
        file.write(kernel["image_sha256"])
    step(f"building jbench for {kernel['name']}")
    make = ["make", "CONFIG_JBENCH=m", f"M={TOP}/tools/testing/jbench", f"MO={out}", "W=1",
            "modules"]
    if kernel["platform"] == "debian":
        make = [os.path.join(TOP, "scripts/in-root"), os.path.join(kernel["obj"], "root"), *make,
                *read(os.path.join(kernel["obj"], "jbench.args")).split()]
    else:
        make += [f"O={kernel['obj']}", f"ARCH={kernel['arch']}"]
    call([os.path.join(TOP, "scripts/kbuild"), "--at", kernel["commit"], *make],
         log, f"jbench does not build for {kernel['name']}")
    return os.path.join(out, "jbench.ko")


def machine_facts():
    facts = {"cpu": platform.machine(), "cores": os.cpu_count(), "kernel": platform.release()}
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                facts["cpu"] = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo", encoding="utf-8") as file:
        facts["memory_mib"] = int(file.readline().split()[1]) // 1024
    return facts
