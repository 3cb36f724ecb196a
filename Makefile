# SPDX-License-Identifier: GPL-2.0
#
# "make help" prints the comments that start with "##".

## The two that matter:
##   run        everything: base, stack, both kernels, boot, bench, comparison
##   check      the checks of the stack and of the tools; the long tests are below
## Working on the stack:
##   setup      install the Debian packages that are missing
##   base       get mainline Linux 7.3 as branch base of build/linux
##   tree       make branch stack there: base + one commit per patch
##   refresh    write branch stack back to patches/, fs/, include/
##   apply      put the stack on a new branch of your own tree (KSRC=)
##   modules    build jbd2, ext4 and xfs for an installed kernel, outside of its tree (KDIR=)
##   modules_install, modules_uninstall
##              put them under updates/ of that kernel's modules, and take them away again
##   deb        the same as a Debian package, which dkms builds for each kernel that it fits
##   mail       write a mail-ready series to build/mail (SERIES=)
## Kernels and tests:
##   kernels    build base and stack for user-mode Linux
##   bench      run the workload recipes on both, print the comparison (WORKLOAD=, ROUNDS=)
##   lockstat   both with lock statistics and tracepoints, for the recipes that need them
##   microscope show the cache lines that CPUs share in an operation (OP=, FS=, CPUS=)
##   model      predict 1 to 256 CPUs from the microscope's counts
##   bisect     find the commit that moved a figure (WORKLOAD=, METRIC=) or broke a test (TEST=)
##   report     plots and tables of all that was measured, as HTML and Markdown
##   results    measure all of it, write Documentation/results.rst (three hours; PART= some of it)
##   check-modules  the modules on Debian's kernel under QEMU, the package, what is refused (RT=1)
##   applies    try each series on the newest releases of Linux (RELEASE=, default all)
##   kunit      run the KUnit tests on the stack
##   kunit-every  run them on every commit (SERIES=)
##   closures   build, boot and test each series with what it depends on, and nothing else (SERIES=)
##   torture    cut the power, inject faults: is anything lost? (MINUTES=, ONLY=, SEED=, SIDE=,
##              RECOVER=, PATCH=)
##   proofs     check models of the lockless protocols (HERD=1: litmus tests, too)
##   kill       kill QEMU in the middle of it, with a disk that has a write-back cache
##   matrix     torture with lockdep, KASAN, KCSAN, PREEMPT_RT..., up to 16 CPUs (ONLY= cells)
##   mutants    break the stack on purpose, one place at a time: does a test notice?
##   fstests    run your own fstests checkout on both, print what differs (FSTESTS=)
##   bugs       which bugs of mainline show on the base, and on the stack? (BUG= names)
##   smoke      mount, stress, unmount and check ext4 and XFS on the stack
##   clean      remove kernels, logs and what tests have left; keeps build/linux, the download, and
##              measurements (bench, microscope)
##   distclean  remove all of build/ but measurements
## Variables:
##   KSRC=      a Linux 7.3 git tree (base: or a tarball; apply: or 7.2; modules: or a directory) to
##              use; mail: where to look up the base
##   KDIR=      modules: the kernel's build directory (default: /lib/modules/RELEASE/build)
##   CC=, KEY=, CERT=  modules: the compiler; modules_install: a key to sign with (Secure Boot)
##   O=         build directory (default: build)
##   JOBS=      parallel jobs (default: one more than CPUs)
##   BRANCH=    apply: branch to make (default: journal-stack)
##   SERIES=    apply, modules, kernels, bench, kunit-every, closures: these series, and what they
##              depend on (default: all; scripts/series lists them); mail: the one to write;
##              refresh: the one that new commits are of
##   BASE_SERIES=  kernels, bench: what the base has besides um (default: xfs-observe, which counts);
##              e.g. "xfs-observe jbd2-handles" to measure jbd2-commit
##   REROLL=    mail: version of the series, 2 for "PATCH v2"
##   WORKLOAD=  bench: names of recipes; tools/testing/bench/bench --list prints them
##   ROUNDS=    bench: rounds; default 3 for all recipes, 5 with WORKLOAD=; 3 with PLATFORM=; results: 3
##   PLATFORM=qemu-modules  run: Debian's kernel under QEMU with its own modules, and with the
##              stack's (RT=1: the flavour with PREEMPT_RT)
##   RELEASE=   applies: like 7.2.12; scripts/orig lists them
##   RESUME=1   bench, results: go on where an interrupted run ended
##   PART=      results: some of microscope, bench, fsync, inactivate (default: all); the page keeps
##              the other parts if they are of the same stack
##   FEATURES=, STACK_MOUNT=  bench: make ext4 with, on both sides, and mount it with, on the
##              stack's only; e.g. FEATURES=orphan_file STACK_MOUNT=inactivate=auto
##   WANDER=1   bench: do not pin the CPUs of guests, as on a host that does other things
##   TARGET=host  bench: on the running kernel, SIDE=base or stack, DEV= a block device
##   MINUTES=   torture (default 30), kill (15), matrix (60): how long the guests work, all
##              together; a pair that is alone has that on each CPU of the host
##   ONLY=      torture, kill: pairs, CONFIG/PROFILE; matrix: cells, BUILD or BUILD/CPUS
##   MUTANT=    mutants: series, or parts of series/what (default: all); SEED=, SLICE=, RESUME=1
##   SLICE=     mutants: seconds for each run of torture (default: 60)
##   FSTESTS=   fstests: a checkout that is built; GROUP= (default: quick), EXCLUDE= or TESTS=; FS=ext4
##              or xfs; PLATFORM=uml or x86_64; MKFS_OPTIONS=, MOUNT_OPTIONS=, BASE_MOUNT=, STACK_MOUNT=;
##              STACK_FIRST=1 (base gets only what does not pass on the stack); RESUME=1
##   BUG=       bugs: names (default: all); tools/testing/bugs/bugs --list prints them
##   HERD=1     proofs: fail if herd7 is not there to run the litmus tests
##   SIDE=base  torture, matrix: mainline, with the patches that the tools need
##   RECOVER=1  torture: what is cut under one side is recovered from by the other
##   PATCH=     torture: build the stack with this diff, tools/testing/torture/shuffle-cil.diff
##   METRIC=    bisect: part of a row's "case: value"; GOOD=, BAD= the range; TEST= a script
##   OP=        microscope: operation (default: all); FS=ext4 or xfs; CPUS= (default: 2 8 32)
##   FORCE=1    tree, distclean: drop commits that are not in patches/; apply: go on if a file that
##              the patches touch is not that of Linux 7.3.4; modules: another release or compiler
##   V=1        show the commands

O ?= build
START_TIME := $(shell date +%s)
export O KSRC KDIR KEY CERT JOBS BRANCH SERIES REROLL FORCE V START_TIME
export WORKLOAD METRIC TEST GOOD BAD PLATFORM QUICK FRESH
export FSTESTS GROUP EXCLUDE TESTS FS MKFS_OPTIONS MOUNT_OPTIONS BASE_MOUNT STACK_MOUNT \
	STACK_FIRST RESUME
MAKEFLAGS += --no-print-directory --no-builtin-rules
Q := $(if $(filter 1,$(V)),,@)
DONE = s=$$(($$(date +%s) - $(START_TIME))); \
	printf '==> [%d:%02d] make $@: done\n' $$((s / 60)) $$((s % 60))

.PHONY: help setup base tree refresh apply mail modules modules_install modules_uninstall kernels \
	run check check-modules deb applies kunit kunit-every smoke bench \
	microscope model report results lockstat bisect torture kill bugs matrix proofs mutants fstests \
	closures clean distclean bench-check torture-check bugs-check matrix-check mutants-check \
	fstests-check
.NOTPARALLEL:

help:
	@sed -n 's/^## \{0,1\}//p' Makefile

setup base tree refresh apply mail:
	$(Q)scripts/$@

tree: base

# With KSRC= they are built from that, else from the base.
modules: $(if $(KSRC),,base)
	$(Q)scripts/modules build
modules_install modules_uninstall:
	$(Q)scripts/modules $(@:modules_%=%)

deb: setup base
	$(Q)scripts/deb

check-modules: setup base
	$(Q)tools/testing/modules/check $(FLAVOUR)

# The base that is measured is mainline with the stack's um series: without them, UML
# makes two system calls each time interrupts are disabled, which hides all else.
UM = um-smp-fixes um-smp
BASE_SERIES ?= xfs-observe
UML_BASE = $$(scripts/closure $(UM) $(BASE_SERIES))
UML_STACK = $(if $(SERIES),$$(scripts/closure $(UM) $(SERIES)),stack)
# The base is built while the stack's branch is made.
kernels: base
	$(Q)scripts/tree & \
	scripts/kbuild uml-base "$(UML_BASE)" uml lean; status=$$?; \
	wait $$! && [ $$status = 0 ] && \
	scripts/kbuild --like uml-base uml-stack "$(UML_STACK)" uml lean

# The same with CONFIG_LOCK_STAT and tracepoints, for these recipes.
TRACED = lock-stat mwcm buffer-waits inodegc-wait fsync-account
lockstat: tree
	$(Q)scripts/kbuild uml-base-lockstat "$(UML_BASE)" uml lean lockstat
	$(Q)scripts/kbuild --like uml-base-lockstat uml-stack-lockstat "$(UML_STACK)" uml lean lockstat

FLAVOUR = $(if $(filter 1,$(RT)),rt-amd64,amd64)
ifeq ($(PLATFORM),qemu-modules)
# The CPUs are emulated, so this shows that it works where users have it, and not how fast.
run: setup tree
	$(Q)scripts/modules-kernels $(FLAVOUR)
	$(Q)tools/testing/bench/bench modules-$(FLAVOUR)-base modules-$(FLAVOUR)-stack --core \
		--base-note "base is Debian's kernel with its own modules; QEMU emulates the CPUs." \
		--rounds $(or $(ROUNDS),3) --json $(O)/bench/run-modules.json
	@$(DONE)
else
run: setup kernels
	$(Q)tools/testing/bench/bench --core --json $(O)/bench/run.json
	@$(DONE)
endif

# A name that does not exist is an error before anything is built.
CHECK_bench = bench/bench $(BENCH_ARGS)
CHECK_torture = torture/torture $(ONLY:%=--only %)
CHECK_bugs = bugs/bugs $(BUG)
CHECK_matrix = matrix/matrix $(ONLY)
CHECK_mutants = mutants/mutants $(MUTANT)
bench-check torture-check bugs-check matrix-check mutants-check: %-check:
	$(Q)tools/testing/$(CHECK_$*) --list >/dev/null

BENCH_ARGS = $(WORKLOAD:%=--workload %) $(ROUNDS:%=--rounds %)
SIDES_ARGS = $(FEATURES:%=--features %) $(STACK_MOUNT:%=--stack-mount %) \
	$(if $(filter 1,$(WANDER)),--wander)
# All recipes take well over 25 minutes a round.
ALL_ROUNDS = $(if $(WORKLOAD)$(ROUNDS),,--rounds 3)
ifeq ($(TARGET),host)
bench:
	$(Q)tools/testing/bench/host $(DEV) $(CONFIRM:%=--confirm %) $(SIDE:%=--side %) $(BENCH_ARGS)
else
bench: bench-check setup kernels $(if $(WORKLOAD),$(if $(filter $(TRACED),$(WORKLOAD)),lockstat),lockstat)
	$(Q)tools/testing/bench/bench $(BENCH_ARGS) $(ALL_ROUNDS) $(SIDES_ARGS) \
		$(if $(RESUME),--resume)
endif

# The microscope runs on QEMU, which has no need of the um series.
microscope: setup tree
	$(Q)scripts/kbuild x86_64-base base x86_64
	$(Q)scripts/kbuild --like x86_64-base x86_64-stack stack x86_64
	$(Q)tools/testing/microscope/microscope $(OP:%=--op %) $(FS:%=--fs %) $(CPUS:%=--cpus %)

model:
	$(Q)tools/testing/model/model $(O)/microscope --bench $(O)/bench/bench.json \
		--json $(O)/model/model.json --plot $(O)/model

# What the base is tortured with: nothing hides what is lost, and nothing is blamed on it that
# the recorder lost.
NET_BASE = $$(scripts/closure $(UM) dm-log-writes)
TORTURED = uml-torture$(if $(filter base,$(SIDE)),-base)
RECOVERS = uml-torture$(if $(filter base,$(SIDE)),,-base)
torture: torture-check setup tree
	$(Q)scripts/kbuild uml-torture stack uml torture
ifneq ($(filter base,$(SIDE))$(RECOVER),)
	$(Q)scripts/kbuild --like uml-torture uml-torture-base $(NET_BASE) uml torture
endif
	$(Q)tools/testing/torture/torture $(if $(PATCH),$(PATCH:%=--patch %),$(TORTURED)) \
		$(if $(RECOVER),--recover $(RECOVERS)) $(MINUTES:%=--minutes %) $(ONLY:%=--only %) \
		$(SEED:%=--seed %)

# Bugs of mainline that can be shown: on the base each in a boot of its own.
bugs: bugs-check setup tree
	$(Q)scripts/kbuild uml-torture stack uml torture
	$(Q)scripts/kbuild --like uml-torture uml-torture-base $(NET_BASE) uml torture
	$(Q)tools/testing/bugs/bugs --base uml-torture-base --stack uml-torture $(BUG)

# Power cuts of another kind.
kill: setup tree
	$(Q)scripts/kbuild x86_64-torture stack x86_64 torture
	$(Q)tools/testing/torture/kill $(MINUTES:%=--minutes %) $(ONLY:%=--only %) $(SEED:%=--seed %)

# What KCSAN finds in the base is noted, so that it is not blamed on the stack.
matrix: matrix-check setup tree
	$(Q)tools/testing/matrix/matrix $(if $(filter base,$(SIDE)),--base $(NET_BASE) --note) \
		$(MINUTES:%=--minutes %) $(SEED:%=--seed %) $(ONLY)

proofs: setup tree
	$(Q)tools/testing/proofs/proofs

mutants: mutants-check setup tree
	$(Q)tools/testing/mutants/mutants $(SEED:%=--seed %) $(SLICE:%=--seconds %) \
		$(if $(RESUME),--resume) $(MUTANT)

MACHINE = $(or $(PLATFORM),uml)
fstests-check:
	$(Q)tools/testing/fstests/fstests --check
fstests: fstests-check setup tree
	$(Q)scripts/kbuild $(MACHINE)-torture stack $(MACHINE) torture
	$(Q)scripts/kbuild --like $(MACHINE)-torture $(MACHINE)-torture-base $(NET_BASE) \
		$(MACHINE) torture
	$(Q)tools/testing/fstests/fstests

# KSRC= is the tree that is searched, not that of the base.
bisect: $(if $(KSRC),,tree)
	$(Q)tools/testing/bisect/bisect

report:
	$(Q)tools/testing/report/report

# What the page has: each part on the same stack, and with a run of its own.
FSYNC = fsync-16k fsync-account
INACTIVATE = unlink-latency unlink-storm reaim-disk
RECIPES = $(subst _,-,$(basename $(notdir $(wildcard tools/testing/bench/recipes/*.py))))
OTHERS = jbench $(filter-out jbench $(FSYNC),$(RECIPES))
PARTS = microscope bench fsync inactivate
PART ?= $(PARTS)
ifneq ($(filter-out $(PARTS),$(PART)),)
$(error PART= is some of $(PARTS))
endif
RUN_PART = tools/testing/bench/bench --rounds $(or $(ROUNDS),3) $(if $(RESUME),--resume)
results: setup kernels $(if $(filter bench fsync,$(PART)),lockstat) $(filter microscope,$(PART))
ifneq ($(filter bench,$(PART)),)
	$(Q)$(RUN_PART) $(OTHERS:%=--workload %) --json $(O)/bench/bench.json
endif
ifneq ($(filter fsync,$(PART)),)
	$(Q)$(RUN_PART) $(FSYNC:%=--workload %) --json $(O)/bench/fsync.json
endif
ifneq ($(filter inactivate,$(PART)),)
	$(Q)$(RUN_PART) $(INACTIVATE:%=--workload %) --features orphan_file \
		--stack-mount inactivate=auto --json $(O)/bench/inactivate.json
endif
	$(Q)[ ! -e $(O)/bench/bench.json ] || [ ! -d $(O)/microscope ] || $(MAKE) model
	$(Q)tools/testing/report/report --results Documentation
	@$(DONE)

check: setup tree
	$(Q)tools/testing/check/run

applies: setup tree
	$(Q)tools/testing/applies/applies $(if $(RELEASE),$(RELEASE),--write)

kunit smoke: tree
	$(Q)tools/testing/check/run $@

kunit-every: setup tree
	$(Q)tools/testing/kunit/every $(SERIES)

closures: setup tree
	$(Q)tools/testing/closures/closures $(SERIES)

clean:
	$(Q)rm -rf $(addprefix $(O)/,obj log mail jbench out bisect report model torture \
		matrix proofs mutants fstests *.tmp linux.old.*)

distclean:
	$(Q)if [ "$(FORCE)" = 1 ] || ! git -C $(O)/linux rev-parse -q --verify stack >/dev/null 2>&1 || \
			scripts/refresh --check --quiet; then \
		rm -rf $(addprefix $(O)/,linux src apt apt-orig root modules deb applies check \
			perturb workloads try obj log mail jbench out bisect report model torture \
			matrix proofs mutants fstests *.tmp linux.old.*); \
	else \
		echo "error: $(O)/linux has commits that are not in patches/" >&2; \
		echo "  next: make refresh, or make distclean FORCE=1" >&2; exit 1; \
	fi
