# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by each bug: NAME [DEVICE]. DEVICE, of 390 MiB, loses what it has; the default is a RAM disk.
#
# The last line of a bug's output is "NAME: no bug", "NAME: bug: WHY", "NAME: skipped: WHY" or
# "NAME: cannot tell: WHY"; its exit status is 0, 1, 2 or 2. A command that fails without being asked
# about is the last of these.

set -Eeuo pipefail

here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
name=$(basename "$0")
dev=${1:-/dev/ram0}
mnt=/mnt/bug
said=
failed="it ended early"
# dmsetup makes the nodes of its devices itself. Programs in Python import what is beside this file.
export DM_DISABLE_UDEV=1 PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 LC_ALL=C.UTF-8

say()
{
	said=1
	echo "$name: $1"
}

bug()
{
	say "bug: $*"
	exit 1
}

skip()
{
	say "skipped: $*"
	exit 2
}

unclear()
{
	say "cannot tell: $*"
	exit 2
}

# Leaves nothing that keeps the next one from the device.
finish()
{
	local status=$? device

	trap - ERR
	set +e
	cd /
	for device in linear slow other; do
		[ -e "/dev/mapper/$device" ] || continue
		dmsetup resume "$device" > /dev/null 2>&1
	done
	umount "$mnt" "$mnt.other" > /dev/null 2>&1
	for device in linear slow other; do
		[ ! -e "/dev/mapper/$device" ] || dmsetup remove --retry "$device" > /dev/null 2>&1
	done
	if [ "$said" ]; then
		exit "$status"
	elif [ "$status" = 0 ]; then
		say "no bug"
		exit 0
	fi
	say "cannot tell: $failed"
	exit 2
}
trap finish EXIT
trap '[ "$BASH_SUBSHELL" != 0 ] || failed="line $LINENO: $BASH_COMMAND failed"' ERR

# python [ARG...]: a program on stdin, which calls bug() or unclear() of buglib, or ends in silence.
python()
{
	local why status=0

	why=$(python3 - "$@") || status=$?
	case $status:${why:+why} in
	0:*) ;;
	1:why) bug "$why" ;;
	*) unclear "${why:-a step in Python failed}" ;;
	esac
}

# make_ext4 OPTION...
make_ext4()
{
	# No thread that starts at a random time and holds a handle while it zeroes the inode table.
	mkfs.ext4 -qF -E lazy_itable_init=0 "$@" "$dev" 64M
}

has_xfs()
{
	command -v mkfs.xfs > /dev/null && grep -qw xfs /proc/filesystems
}

# make_xfs OPTION...
make_xfs()
{
	has_xfs || skip "the kernel has no XFS, or mkfs.xfs is not installed"
	mkfs.xfs -f "$@" "$dev" > /dev/null
}

# in_each_mode FUNCTION: with the name of a mode, and the options of mkfs.ext4 and mount for it.
in_each_mode()
{
	"$1" "data=ordered" "^fast_commit" data=ordered
	"$1" "data=journal" "^fast_commit" data=journal
	"$1" "no journal" "^has_journal" defaults
	"$1" "fast_commit" "fast_commit" defaults
}

# mount_fs TYPE OPTIONS [DEVICE]
mount_fs()
{
	mkdir -p "$mnt"
	mount -t "$1" -o "$2" "${3:-$dev}" "$mnt"
}

# mount_again TYPE OPTIONS [DEVICE]: what does not work is the bug.
mount_again()
{
	mount_fs "$@" 2> /dev/null || bug "it cannot be mounted again${when:+, $when}"
}

# Nothing is written any more.
shutdown_fs()
{
	python3 -c 'import sys, buglib; buglib.shutdown(buglib.directory(sys.argv[1]))' "$mnt"
}

# check_fs TYPE: e2fsck or xfs_repair find nothing.
check_fs()
{
	if [ "$1" = ext4 ]; then
		e2fsck -fn "$dev" > /tmp/fsck 2>&1
	else
		xfs_repair -n "$dev" > /tmp/fsck 2>&1
	fi || { cat /tmp/fsck; bug "the filesystem is not clean${when:+, $when}"; }
}
# For messages: in which of several tries.
when=

# What e2fsck has to do after an error, without being asked.
repair_ext4()
{
	e2fsck -fp "$dev" > /tmp/fsck 2>&1 || [ $? = 1 ] || { cat /tmp/fsck; bug "not repaired${when:+, $when}"; }
}

# linear SECTORS: /dev/mapper/linear, which dm.py can hold up or break.
linear()
{
	dmsetup create linear --table "0 $1 linear $dev 0" > /dev/null
}

# count LETTERS FILE: how many of them FILE has.
count()
{
	tr -dc "$1" < "$2" | wc -c
}

# quiet: from here to quiet_end, the filesystems complain of nothing.
quiet()
{
	echo "bug $name: quiet" > /dev/kmsg
}

quiet_end()
{
	# The mark is there more than once if the bug is tried again. No command ends before it has read all.
	if dmesg | awk -v mark="bug $name: quiet\$" '
			$0 ~ mark { text = ""; next }
			/EXT4-fs.*(error|warning)|JBD2: |XFS.*([Cc]orrupt|[Ee]rror|[Ss]hut)|I\/O error/ { text = text $0 "\n" }
			END { printf "%s", text; exit (text == "") }'; then
		bug "the filesystem complained"
	fi
}
