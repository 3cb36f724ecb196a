# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Helpers of the checks: the stack's commits, patches and files.

# shellcheck source=scripts/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/../../../scripts/lib.sh"

# shellcheck disable=SC2034 # for the checks
KBUILD=$TOP/scripts/kbuild
# shellcheck disable=SC2034 # for the checks
BOOT=$TOP/tools/testing/vm/boot
STATE=$BUILD/check
mkdir -p "$STATE"

# shellcheck disable=SC2034 # BASE and COMMITS are for the checks
need_stack()
{
	[ -e "$LINUX/.git" ] || die "there is no kernel tree in $LINUX" "run 'make tree'"
	if ! BASE=$(git -C "$LINUX" rev-parse -q --verify 'base^{commit}') ||
	   ! TIP=$(git -C "$LINUX" rev-parse -q --verify 'stack^{commit}'); then
		die "$LINUX has no branches base and stack" "run 'make tree'"
	fi
	mapfile -t COMMITS < <(git -C "$LINUX" rev-list --reverse "$BASE..$TIP")
	# shellcheck disable=SC2119 # all of them
	mapfile -t PATCHES < <(series)
	[ ${#PATCHES[@]} -gt 0 ] || die "patches/series names no patch" "run 'make refresh'"
	[ ${#PATCHES[@]} = ${#COMMITS[@]} ] ||
		die "patches/series has ${#PATCHES[@]} patches, branch stack ${#COMMITS[@]} commits" \
		    "run 'make refresh' or 'make tree'"
}

subject()
{
	git -C "$LINUX" show -s --format='%h %s' "$1"
}

# The files of the kernel that the stack touches, those it removes excepted.
touched()
{
	git -C "$LINUX" diff --no-renames --name-only --diff-filter=d "$BASE" "$TIP" -- "$@"
}

# touched_at COMMIT: those of them that COMMIT has.
touched_at()
{
	local -a files

	mapfile -t files < <(touched "${@:2}")
	git -C "$LINUX" ls-tree -r --name-only "$1" -- "${files[@]}"
}

# units COMMIT: what COMMIT compiles of the C files on stdin; one that another file of its directory
# includes is compiled with that.
units()
{
	local -a files dirs

	mapfile -t files
	[ ${#files[@]} -gt 0 ] || return 0
	mapfile -t dirs < <(printf '%s\n' "${files[@]%/*}" | LC_ALL=C sort -u)
	{
		git -C "$LINUX" grep -E '^#include "[^/"]+\.c"' "$1" -- "${dirs[@]/%//*.c}" || :
		printf '%s\n' "${files[@]}"
	} | awk -F '[:"]' 'NF > 1 { dir = $2; sub(/[^\/]*$/, "", dir); by[dir $4] = $2 }
		NF == 1 { print $1 in by ? by[$1] : $1 }' | LC_ALL=C sort -u
}

# A result that need not be worked out again while its key stays the same.
is_done()
{
	[ -f "$STATE/$1" ] && [ "$(cat "$STATE/$1")" = "$2" ]
}

set_done()
{
	mkdir -p "$(dirname "$STATE/$1")"
	echo "$2" > "$STATE/$1.tmp"
	mv "$STATE/$1.tmp" "$STATE/$1"
}

# normalise: the warnings of a log, without what moves: line numbers and the
# directory of the tree.  The number of equal lines counts.
normalise()
{
	sed -E -e "s,$BUILD/(src|linux)/,,g" -e 's,^\./,,' -e 's/:[0-9]+(:[0-9]+)?/:/g' \
		-e 's/ line [0-9]+/ line/g' | LC_ALL=C sort
}

compiler_warnings()
{
	# A line "error: " without a file is kbuild's own: an earlier build was interrupted.
	grep -hE '([Ww]arning|WARNING|[Ee]rror): ' "$@" | grep -v '^error: ' | normalise
}

# only_new OLD NEW: lines of NEW that OLD does not have, or has less often.
only_new()
{
	LC_ALL=C comm -13 "$1" "$2"
}

# exported COMMIT: what its sources export to modules.
exported()
{
	{
		git -C "$LINUX" grep -hoE 'EXPORT_[A-Z0-9_]*SYMBOL[A-Z0-9_]*\(\w+' "$1" \
			-- arch/um block drivers/char fs init kernel lib mm net |
			awk -F'(' '!/TRACEPOINT/ { print $2; next }
				{ print "__tracepoint_" $2; print "__traceiter_" $2 }'
		# By a macro.
		printf '%s\n' get_random_u{8,16,32} kstrtouint_from_user param_ops_ushort
	} | LC_ALL=C sort
}

# not_exported EXPORTED OBJECT...: what these objects need from outside and a file, of which
# exported() has printed the lines, does not name.
not_exported()
{
	LC_ALL=C comm -23 \
		<(nm "${@:2}" | awk 'NF > 1 { if ($(NF - 1) != "U") have[$NF]; else need[$NF] }
			END { for (s in need) if (!(s in have)) print s }' | LC_ALL=C sort) "$1"
}

# kunit_fragments COMMIT: the fragments of the KUnit tests that COMMIT has.
kunit_fragments()
{
	local file symbol

	for file in "$TOP"/tools/testing/kunit/*.config; do
		symbol=$(sed -nE 's/^CONFIG_(.*KUNIT.*)=y/\1/p' "$file")
		! git -C "$LINUX" grep -qw "config $symbol" "$1" -- fs lib || echo "$file"
	done
}

# judge_kunit LOG: fails if no test ran, or if all pass and lockdep, say, still has something to say.
judge_kunit()
{
	local results

	results=$(grep -acE '^(\[ *[0-9.]+\](\[ *[TC][0-9]+\])?)? {5,}ok [0-9]+ ' "$1" || :)
	python3 "$TOP/tools/testing/vm/console.py" "$1" || return
	if [ "$results" = 0 ]; then
		echo "error: no KUnit test ran"
		return 1
	fi
	info "$results results, all ok"
}

# run_kunit NAME COMMIT LOG: run the tests of kernel O/obj/NAME, built from COMMIT.
run_kunit()
{
	local bad=0

	"$KBUILD" --at "$2" tools/testing/kunit/kunit.py exec --arch um \
		--build_dir "$BUILD/obj/$1" --timeout 600 \
		--kernel_args seccomp=on --kernel_args ncpus=2 || bad=1
	mv "$BUILD/obj/$1/test.log" "$3" || return
	judge_kunit "$3" || bad=1
	return "$bad"
}

# uml_debug COMMIT [--make TARGETS]: build the kernel of most checks; prints the path of its image.
uml_debug()
{
	local -a fragments

	mapfile -t fragments < <(kunit_fragments "$1")
	"$KBUILD" "${@:2}" uml-debug "$1" uml debug lean "${fragments[@]}"
}

# x86_64_check: build the kernel of the checks that need QEMU; prints the path of its image.
x86_64_check()
{
	"$KBUILD" x86_64-check "$TIP" x86_64 check "$TOP/tools/testing/kunit/fs.config"
}
