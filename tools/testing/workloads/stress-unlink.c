// SPDX-License-Identifier: GPL-2.0
/*
 * stress-unlink - create, write, sync and unlink files from many processes
 *
 * Every process works in a directory of its own, so what the processes share is
 * the filesystem's log and allocator, not a directory lock. The result, one
 * line of JSON, holds the time from the common start to the last exit and the
 * context switches of the processes.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCS 4096

static struct {
	long procs;
	long loops;
	long files;
	long size;
	bool fsync;
	const char *dir;
} opt = { .procs = 8, .loops = 100, .files = 1, .size = 16384, .dir = "." };

static pid_t pids[MAX_PROCS];

static void usage(FILE *out)
{
	fprintf(out,
		"Usage: stress-unlink [options]\n"
		"\n"
		"Each process, in a directory of its own: create files, write them,\n"
		"unlink them; again and again. Prints one line of JSON.\n"
		"\n"
		"  -p, --procs N   processes, default %ld\n"
		"  -l, --loops N   loops of each process, default %ld\n"
		"  -n, --files N   files in a loop, default %ld\n"
		"  -s, --size N    bytes written to each file, default %ld\n"
		"  -f, --fsync     fsync each file before it is closed\n"
		"  -d, --dir DIR   work in this directory, default \"%s\"\n"
		"  -h, --help      print this text\n",
		opt.procs, opt.loops, opt.files, opt.size, opt.dir);
}

static long parse_number(const char *name, const char *text, long min,
			 long max)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < min || value > max)
		errx(2, "--%s: '%s' is not a number from %ld to %ld",
		     name, text, min, max);
	return value;
}

static void options(int argc, char **argv)
{
	static const struct option longopts[] = {
		{ "procs", required_argument, NULL, 'p' },
		{ "loops", required_argument, NULL, 'l' },
		{ "files", required_argument, NULL, 'n' },
		{ "size", required_argument, NULL, 's' },
		{ "fsync", no_argument, NULL, 'f' },
		{ "dir", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 }
	};
	int c;

	while ((c = getopt_long(argc, argv, "p:l:n:s:fd:h", longopts, NULL)) != -1) {
		switch (c) {
		case 'p':
			opt.procs = parse_number("procs", optarg, 1, MAX_PROCS);
			break;
		case 'l':
			opt.loops = parse_number("loops", optarg, 1, INT_MAX);
			break;
		case 'n':
			opt.files = parse_number("files", optarg, 1, INT_MAX);
			break;
		case 's':
			opt.size = parse_number("size", optarg, 0, INT_MAX);
			break;
		case 'f':
			opt.fsync = true;
			break;
		case 'd':
			opt.dir = optarg;
			break;
		case 'h':
			usage(stdout);
			exit(0);
		default:
			usage(stderr);
			exit(2);
		}
	}
	if (optind < argc)
		errx(2, "'%s' is not an option, see --help", argv[optind]);
}

static void dir_name(char *name, long proc)
{
	snprintf(name, PATH_MAX, "%s/stress-unlink.%ld", opt.dir, proc);
}

static bool remove_dirs(long n)
{
	char dir[PATH_MAX];
	bool ok = true;

	while (n--) {
		dir_name(dir, n);
		if (rmdir(dir)) {
			warn("rmdir %s", dir);
			ok = false;
		}
	}
	return ok;
}

static void make_dirs(void)
{
	char dir[PATH_MAX];
	long i;

	for (i = 0; i < opt.procs; i++) {
		dir_name(dir, i);
		if (mkdir(dir, 0700)) {
			warn("mkdir %s", dir);
			remove_dirs(i);
			exit(1);
		}
	}
}

static void create_file(const char *name, const char *buf)
{
	long done = 0;
	ssize_t n;
	int fd;

	fd = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
	if (fd < 0)
		err(1, "create %s", name);
	while (done < opt.size) {
		n = write(fd, buf + done, opt.size - done);
		if (n < 0)
			err(1, "write %s", name);
		done += n;
	}
	if (opt.fsync && fsync(fd))
		err(1, "fsync %s", name);
	if (close(fd))
		err(1, "close %s", name);
}

static void work(long proc)
{
	char dir[PATH_MAX], name[32];
	char *buf = malloc(opt.size + 1);
	long loop, i;

	if (!buf)
		err(1, "malloc");
	memset(buf, 0xcc, opt.size);
	dir_name(dir, proc);
	if (chdir(dir))
		err(1, "chdir %s", dir);

	for (loop = 0; loop < opt.loops; loop++) {
		for (i = 0; i < opt.files; i++) {
			snprintf(name, sizeof(name), "file.%ld", i);
			create_file(name, buf);
		}
		for (i = 0; i < opt.files; i++) {
			snprintf(name, sizeof(name), "file.%ld", i);
			if (unlink(name))
				err(1, "unlink %s", name);
		}
	}
	free(buf);
}

/* Body of a process: report, wait for the others, work. */
static void child(long proc, int ready, int go)
{
	char c = 0;

	if (write(ready, &c, 1) != 1)
		err(1, "write to pipe");
	close(ready);
	if (read(go, &c, 1) < 0)
		err(1, "read from pipe");
	work(proc);
	exit(0);
}

static void start(int *go)
{
	int ready[2], gate[2];
	long i, n;
	char c;

	if (pipe(ready) || pipe(gate))
		err(1, "pipe");
	for (i = 0; i < opt.procs; i++) {
		pids[i] = fork();
		if (pids[i] < 0) {
			warn("fork of process %ld", i);
			while (i--)
				kill(pids[i], SIGKILL);
			exit(1);
		}
		if (!pids[i]) {
			close(ready[0]);
			close(gate[1]);
			child(i, ready[1], gate[0]);
		}
	}
	close(ready[1]);
	close(gate[0]);
	for (n = 0; n < opt.procs && read(ready[0], &c, 1) == 1; n++)
		;
	close(ready[0]);
	*go = gate[1];
}

static bool collect(void)
{
	bool ok = true;
	int status;
	long i;

	for (i = 0; i < opt.procs; i++) {
		if (waitpid(pids[i], &status, 0) < 0)
			err(1, "waitpid");
		if (WIFSIGNALED(status))
			warnx("process %ld: killed by signal %d", i, WTERMSIG(status));
		if (status)
			ok = false;
	}
	return ok;
}

static long long now(void)
{
	struct timespec ts;

	if (clock_gettime(CLOCK_MONOTONIC, &ts))
		err(1, "clock_gettime");
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static long long usec(struct timeval tv)
{
	return tv.tv_sec * 1000000LL + tv.tv_usec;
}

static void report(long long ns)
{
	long long ops = (long long)opt.procs * opt.loops * opt.files;
	struct rusage ru;

	if (getrusage(RUSAGE_CHILDREN, &ru))
		err(1, "getrusage");
	printf("{\"procs\": %ld, \"loops\": %ld, \"files\": %ld, \"size\": %ld, \"fsync\": %s, ",
	       opt.procs, opt.loops, opt.files, opt.size,
	       opt.fsync ? "true" : "false");
	printf("\"ops\": %lld, \"ns\": %lld, \"nvcsw\": %ld, \"nivcsw\": %ld, ",
	       ops, ns, ru.ru_nvcsw, ru.ru_nivcsw);
	printf("\"utime_us\": %lld, \"stime_us\": %lld}\n",
	       usec(ru.ru_utime), usec(ru.ru_stime));
}

int main(int argc, char **argv)
{
	long long begin, end;
	bool ok;
	int go;

	options(argc, argv);
	make_dirs();

	start(&go);
	begin = now();
	close(go);
	ok = collect();
	end = now();

	ok &= remove_dirs(opt.procs);
	if (!ok)
		return 1;
	report(end - begin);
	return 0;
}
