# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Helpers sourced by the shell scripts of this repository.

set -Eeuo pipefail
trap '[ "$BASH_SUBSHELL" != 0 ] || printf "error: %s:%s: %s failed\n" "$0" "$LINENO" "$BASH_COMMAND" >&2' ERR

TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
O=${O:-build}
case $O in
/*) BUILD=$O ;;
*)  BUILD=$TOP/$O ;;
esac
LINUX=$BUILD/linux
JOBS=${JOBS:-$(($(nproc) + 1))}
export START_TIME=${START_TIME:-$(date +%s)}
export TOP BUILD LINUX JOBS

# The same input gives the same commits whatever the caller's git settings.
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE GIT_OBJECT_DIRECTORY GIT_NAMESPACE
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
export NEUTRAL_NAME=Linux NEUTRAL_EMAIL=linux@localhost
export LC_ALL=C.UTF-8

if [ "${V:-0}" = 1 ]; then
	set -x
fi

# usage: print the calling script's leading comment block.
usage()
{
	sed -n '3,/^\([^#]\|$\)/{/^# \{0,1\}/s///p}' "$0"
}

elapsed()
{
	local s=$(($(date +%s) - START_TIME))

	printf '%d:%02d' $((s / 60)) $((s % 60))
}

step()
{
	printf '==> [%s] %s\n' "$(elapsed)" "$*"
}

info()
{
	printf '    %s\n' "$*"
}

# die WHAT [NEXT-STEP]
die()
{
	printf 'error: %s\n' "$1" >&2
	if [ $# -gt 1 ]; then
		printf '  next: %s\n' "$2" >&2
	fi
	exit 1
}

# need TOOL...
need()
{
	local tool

	for tool; do
		command -v "$tool" >/dev/null ||
			die "$tool is not installed" "run 'make setup'"
	done
}

# need_space MB DIR
need_space()
{
	local free

	free=$(df -Pm "$2" | awk 'NR == 2 { print $4 }')
	[ "$free" -ge "$1" ] ||
		die "$2 has $free MB free, $1 MB are needed" \
		    "free some space, or put the build elsewhere with O=/other/dir"
}

# with_lock NAME: hold build/.lock-NAME until this script ends.
with_lock()
{
	mkdir -p "$BUILD"
	exec 9>"$BUILD/.lock-$1"
	flock -n 9 || die "another run is working in $BUILD ($1)" "wait for it to end"
}

# kernel_version DIR|FILE: 7.3.4 from a kernel's top Makefile ("-" reads stdin).
kernel_version()
{
	awk '!done && $2 == "=" && $1 ~ /^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION)$/ { v[$1] = $3 }
	     /^NAME *=/ { done = 1 }
	     END { printf "%s.%s", v["VERSION"], v["PATCHLEVEL"]
		   if (v["SUBLEVEL"] > 0) printf ".%s", v["SUBLEVEL"]
		   printf "%s\n", v["EXTRAVERSION"] }' "$1"
}

# series [NAME...]: the patch files of these series and of those they depend on, in the order
# of patches/series and relative to patches/; without a name all of them.
series()
{
	"$TOP/scripts/series" --patches "$@"
}

# am_series REPO COMMIT TMP PATCH...: apply patches on COMMIT with git am.  All the
# work is done in the scratch repository TMP, which borrows REPO's objects and
# checks out only the files the patches touch; REPO is given the new objects at
# the end.  Sets NEW to the id of the last commit.
am_series()
{
	local repo=$1 commit=$2 tmp=$3 objects n k p
	local -a patches=("${@:4}")

	n=${#patches[@]}
	for p in "${patches[@]}"; do
		[ -f "$TOP/patches/$p" ] ||
			die "patches/series names $p, which is missing" "git checkout patches, or make refresh"
	done
	objects=$(git -C "$repo" rev-parse --path-format=absolute --git-path objects)
	rm -rf "$tmp"
	git init -q "$tmp"
	echo "$objects" >"$tmp/.git/objects/info/alternates"
	p=$(git -C "$repo" rev-parse --path-format=absolute --git-path shallow)
	[ ! -f "$p" ] || cp "$p" "$tmp/.git/shallow"
	git -C "$tmp" config core.sparseCheckout true
	for p in "${patches[@]}"; do
		git apply --numstat "$TOP/patches/$p" | cut -f3 | sed 's,^,/,'
	done >"$tmp/.git/info/sparse-checkout"
	[ -s "$tmp/.git/info/sparse-checkout" ] || echo /Makefile >"$tmp/.git/info/sparse-checkout"
	# Each commit writes the whole index: make that cheap.
	git -C "$tmp" config index.version 4
	git -C "$tmp" config index.skipHash true
	git -C "$tmp" checkout -q --detach "$commit"
	k=0
	if [ "$n" -gt 0 ] && ! stdbuf -oL git -C "$tmp" -c gc.auto=0 am --committer-date-is-author-date \
			"${patches[@]/#/$TOP/patches/}" 2>>"$tmp/.git/am.log" |
			while read -r p; do
				[[ $p == "Applying: "* ]] || { echo "$p" >>"$tmp/.git/am.log"; continue; }
				k=$((k + 1))
				info "patch $k of $n: ${p#Applying: }"
			done; then
		sed 's/^/    /' "$tmp/.git/am.log" >&2
		k=$(cat "$tmp/.git/rebase-apply/next" 2>/dev/null || echo 1)
		rm -rf "$tmp"
		die "patch $k of $n does not apply: patches/${patches[k - 1]}" \
		    "${NEXT:-fix it on branch stack and make refresh; nothing was changed}"
	fi
	NEW=$(git -C "$tmp" rev-parse HEAD)
	printf '%s\n^%s\n' "$NEW" "$commit" |
		git -C "$tmp" pack-objects --revs --stdout -q |
		git -C "$repo" unpack-objects -q
	rm -rf "$tmp"
}
