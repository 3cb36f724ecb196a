# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154 # lib.sh is sourced first
# What several bugs have in common. Sourced after lib.sh.

# outgrown FEATURES OPTIONS STATEMENTS: the data of a file moves from its inode to a block, and is there
# after a crash.
outgrown()
{
	when=$2
	make_ext4 -b 4096 -O "inline_data$1"
	mount_fs ext4 "$2,commit=600"
	python "$mnt" "$3" <<-'EOT'
	import os, sys
	import buglib
	top = buglib.directory(sys.argv[1])
	file = buglib.create("file", top)
	os.write(file, b"a" * 50)
	os.sync()
	exec(sys.argv[2])
	buglib.shutdown(file)
	EOT
	umount "$mnt"
	mount_again ext4 defaults
	[ "$(count a "$mnt/file")" = 50 ] || bug "a file that has outgrown its inode has lost what was synced, $when"
	umount "$mnt"
	check_fs ext4
}

# crowded OPTIONS STATEMENT [FEATURES]: what asks for a block where there is none fails, and what the file
# has in its inode stays.
crowded()
{
	when=$1${3:-}
	make_ext4 -b 4096 -m 0 -O "inline_data${3:-}"
	mount_fs ext4 "$1"
	python "$mnt" "$2" <<-'EOT'
	import errno, os, sys
	import buglib
	file, rest = (buglib.create(f"{sys.argv[1]}/{name}") for name in ("file", "rest"))
	os.write(file, b"a" * 50)
	buglib.fill(rest)
	os.sync()
	try:
	    exec(sys.argv[2])
	except OSError as error:
	    if error.errno != errno.ENOSPC:
	        buglib.bug(f"not ENOSPC: {error}")
	else:
	    buglib.unclear("something for which there is no space did not fail")
	EOT
	umount "$mnt"
	check_fs ext4
	mount_again ext4 defaults
	[ "$(count a "$mnt/file")" = 50 ] || bug "inline data lost when there was no space, $when"
	rm "$mnt/rest"
	sync
	printf b | dd of="$mnt/file" bs=1 seek=8192 conv=notrunc status=none ||
		bug "nothing can be written when there is space again, $when"
	umount "$mnt"
	mount_again ext4 defaults
	[ "$(count ab "$mnt/file")" = 51 ] || bug "inline data lost when there was space again, $when"
	umount "$mnt"
	check_fs ext4
}

# synced MKFS SIZE OPTIONS KIND: what fdatasync was acknowledged for is there after a crash, also of moved
# blocks or a file whose data is journalled (KIND).
synced()
{
	# shellcheck disable=SC2086 # options
	make_ext4 -b 4096 $1
	mount_fs ext4 "$3"
	python "$mnt" "$2" "$4" <<-'EOT'
	import fcntl, os, struct, sys
	import buglib
	MOVE_EXT = 0xc028660f
	top, size, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
	file, donor = (buglib.create(f"{top}/{name}") for name in ("file", "donor"))
	if kind == "journalled":
	    buglib.set_flags(file, buglib.EXTENTS | buglib.JOURNAL_DATA)
	os.write(file, b"a" * size)
	if kind == "moved":
	    os.posix_fallocate(donor, 0, size)
	os.sync()
	if kind == "moved":
	    args = bytearray(struct.pack("=IIQQQQ", 0, donor, 0, 0, size // 4096, 0))
	    fcntl.ioctl(file, MOVE_EXT, args)
	    if struct.unpack("=IIQQQQ", args)[5] != size // 4096:
	        buglib.unclear("not all blocks were moved")
	os.pwrite(file, b"b" * (size // 2), size // 4)
	os.fdatasync(file)
	buglib.shutdown(file)
	EOT
	umount "$mnt"
	mount_again ext4 defaults
	[ "$(tr -d a < "$mnt/file" | wc -c)" = $(($2 / 2)) ] || bug "data is lost after fdatasync"
	umount "$mnt"
	check_fs ext4
}

# in_place HOW: with data=journal the log has what is not in place yet.
in_place()
{
	make_ext4 -b 4096
	linear 131072
	mount_fs ext4 data=journal,commit=600 /dev/mapper/linear
	python "$mnt" "$dev" "$1" <<-'EOT'
	import os, sys
	import buglib, dm
	from buglib import BLOCK
	SECTORS = 131072
	top, disk, how = buglib.directory(sys.argv[1]), *sys.argv[2:]
	file = buglib.create("f", top)
	os.write(file, b"o" * BLOCK)
	os.fsync(file)
	begin = buglib.sector(file)
	os.pwrite(file, b"n" * BLOCK, 0)
	# This commits it, and writes nothing in place.
	os.mkdir("dir", dir_fd=top)
	os.fsync(top)
	dm.patch(disk, SECTORS, begin, begin + 8, "error" if how.endswith("error") else dm.slow(disk, begin, 2000))
	if how == "writeback under way":
	    if not buglib.write_back(file):
	        buglib.unclear("the data was not written back")
	elif how == "writeback error":
	    if buglib.write_back(file, buglib.WRITE | buglib.AFTER):
	        buglib.unclear("there was no error")
	def in_place():
	    return dm.read(disk, begin, BLOCK) == b"n" * BLOCK
	if in_place():
	    buglib.unclear("the data is in place already")
	emptied = not buglib.try_to(buglib.checkpoint, top)
	lost = emptied and not in_place()
	dm.table((0, SECTORS, f"linear {disk} 0"))
	if lost:
	    buglib.bug("the log has given up what is not in place")
	if how.endswith("error") and emptied:
	    buglib.unclear("there was no error")
	EOT
	umount "$mnt"
	mount_again ext4 defaults /dev/mapper/linear
	[ "$(count n "$mnt/f")" = 4096 ] || bug "the data is lost"
	umount "$mnt"
	dmsetup remove linear
	repair_ext4
	check_fs ext4
}

# shortened HOW: with data=journal, what a truncation that is not committed removes is still there after a
# crash, and so is the filesystem.
shortened()
{
	local how=$1 opts=commit=600

	when="truncated while it was $how"
	make_ext4 -b 4096 -O orphan_file -J size=4
	linear 131072
	[ "$how" = "written back" ] || opts+=,data=journal,lazytime
	mount_fs ext4 "nodelalloc,$opts" /dev/mapper/linear
	python "$mnt" "$how" <<-'EOT'
	import mmap, os, sys, time
	import buglib, dm
	from buglib import BLOCK
	BLOCKS = 400
	top, how = buglib.directory(sys.argv[1]), sys.argv[2]
	def write_back(what, flags):
	    if not buglib.write_back(what, flags):
	        buglib.unclear("nothing was written back")
	def is_cut(size):
	    for _ in range(100):
	        time.sleep(.1)
	        if os.fstat(file).st_size == size:
	            time.sleep(.3)
	            return all(tasks.alive())
	    return False
	tasks = buglib.Tasks(.5)
	file, other = (buglib.create(name, top) for name in "fg")
	if how == "written back":
	    buglib.set_flags(file, buglib.EXTENTS | buglib.JOURNAL_DATA)
	    os.write(file, b"o" * BLOCK * BLOCKS)
	    os.fsync(file)
	    buglib.checkpoint(top)
	    os.pwrite(file, b"n" * BLOCK * BLOCKS, 0)
	    os.mkdir("a", dir_fd=top)
	    os.fsync(top)
	    # Now the log has it, and nothing else that is not in place.
	    disk = os.open("/dev/mapper/linear", os.O_RDWR)
	    write_back(disk, buglib.BEFORE | buglib.WRITE | buglib.AFTER)
	    buglib.drop_caches(2)
	    # This has the file's inode, and stops at the data of the other one.
	    os.mkdir("b", dir_fd=top)
	    os.write(other, b"g" * BLOCK)
	    size, sync = 0, (os.fsync, top)
	else:
	    size, sync = 100, (os.fdatasync, other)
	    length = size if how.endswith("size") else BLOCK
	    for name in file, other:
	        os.write(name, b"o" * BLOCK)
	    mapped = mmap.mmap(file, BLOCK)
	    os.ftruncate(file, length)
	    os.sync()
	    # Without a new time, which lazytime and fdatasync leave in memory: the log gets only data.
	    for name in file, other:
	        os.pwrite(name, b"n" * length, 0)
	    if length == size:
	        mapped[size] = 1
	dm.suspend()
	tasks.begin(*sync)
	tasks.begin(buglib.try_to, os.ftruncate, file, size)
	blocked = is_cut(size)
	if how == "written back":
	    write_back(file, buglib.WRITE)
	    buglib.drop_caches(2)
	dm.resume()
	tasks.threads[0].join()
	buglib.shutdown(top)
	tasks.join()
	if not blocked:
	    buglib.unclear("it was not truncated meanwhile")
	EOT
	umount "$mnt"
	mount_again ext4 defaults /dev/mapper/linear
	# All of it is there, or what is left is.
	[ "$(stat -c %s "$mnt/f")" = "$(count n "$mnt/f")" ] || bug "the data is lost, $when"
	umount "$mnt"
	dmsetup remove linear
	check_fs ext4
}

# not_logged HOW: what fsync returned 0 for is there after the next mount, also if the log cannot be written,
# or is shut down, meanwhile.
#   down      a directory that is open when the log is shut down
#   aborted   a checkpoint that is waiting for an iclog when the log write fails
#   flushing  the log write fails while a shutdown flushes the log
not_logged()
{
	make_xfs -d size=300m
	linear 614400
	mount_fs xfs defaults /dev/mapper/linear
	python "$mnt" "$1" "$dev" <<-'EOT'
	import os, struct, sys
	import buglib, dm
	SECTORS = 614400
	top, how, disk = buglib.directory(sys.argv[1]), *sys.argv[2:]
	with open(disk, "rb") as file:
	    sb = file.read(512)
	first, ag_blocks, blocks = (struct.unpack_from(f, sb, n)[0] for f, n in ((">Q", 48), (">I", 84), (">I", 96)))
	log = ((first >> sb[124]) * ag_blocks + (first & ((1 << sb[124]) - 1))) * 8
	end = log + blocks * 8
	answers = []
	def linear(begin, end):
	    return begin, end, f"linear {disk} {begin}"
	def sync(fd):
	    answers.append(buglib.try_to(os.fsync, fd))
	def answered():
	    if 0 in answers:
	        buglib.bug("fsync returned 0")
	    sys.exit(0)
	tasks = buglib.Tasks(.5)
	file = buglib.create("f", top)
	if how == "down":
	    buglib.shutdown(top)
	    sync(top)
	    sync(top)
	    answered()
	with open("/sys/fs/xfs/dm-0/log/log_head_lsn") as head:
	    at = log + int(head.read().split(":")[1])
	if how == "aborted":
	    # More than all iclogs take, less than what is logged without being asked to.
	    os.mkdir("d", dir_fd=top)
	    for n in range(2500):
	        os.mknod(f"d/{n}", dir_fd=top)
	dm.suspend()
	tasks.begin(sync, file)
	if how == "flushing":
	    os.mkdir("d", dir_fd=top)
	    tasks.begin(buglib.shutdown, top, buglib.LOGFLUSH)
	held = all(tasks.alive())
	# The first record fails; where a shutdown waits for a second one, that takes a second.
	dm.table(linear(0, at), (at, at + 8, "error"), (at + 8, end, f"delay {disk} {at + 8} 1000"),
	         linear(end, SECTORS), noflush=True)
	tasks.join()
	if not held:
	    buglib.unclear("nothing was held up")
	answered()
	EOT
	umount "$mnt"
	dmsetup remove linear
}
