// SPDX-License-Identifier: GPL-2.0
/*
 * /init of an initramfs made by initramfs: load the modules in /modules, mount the host's files
 * over 9p, and go on with $BOOT_INIT in $BOOT_ROOT, a root directory of the host. It is the
 * lower layer of an overlay, so nothing is written to it. The paths in $BOOT_BIND, separated
 * by colons, are the host's there, too.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void die(const char *what)
{
	/* The end of PID 1 is a panic, which ends the guest. */
	printf("init: %s: %s\n", what, strerror(errno));
	fflush(stdout);
	exit(1);
}

static void load_modules(void)
{
	struct dirent **names;
	int i, n = scandir("/modules", &names, NULL, alphasort);

	if (n < 0 || chdir("/modules"))
		die("/modules");
	for (i = 0; i < n; i++) {
		int fd;

		if (names[i]->d_name[0] == '.')
			continue;
		fd = open(names[i]->d_name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
			die(names[i]->d_name);
		close(fd);
	}
}

static void make_directories(char *path)
{
	char *slash = path;

	while ((slash = strchr(slash + 1, '/'))) {
		*slash = 0;
		mkdir(path, 0755);
		*slash = '/';
	}
	mkdir(path, 0755);
}

static const char *need(const char *name)
{
	const char *value = getenv(name);

	if (!value) {
		errno = EINVAL;
		die(name);
	}
	return value;
}

int main(void)
{
	char options[4096], from[4096], to[4096];
	const char *init = need("BOOT_INIT"), *root = need("BOOT_ROOT");
	char *path, *paths = strdup(need("BOOT_BIND"));

	load_modules();
	mkdir("/host", 0755);
	mkdir("/rw", 0755);
	mkdir("/root", 0755);
	if (mount("bootroot", "/host", "9p", MS_RDONLY,
		  "trans=virtio,version=9p2000.L,msize=262144,cache=loose"))
		die("the host's files (9p)");
	if (mount("tmpfs", "/rw", "tmpfs", 0, NULL))
		die("tmpfs");
	mkdir("/rw/upper", 0755);
	mkdir("/rw/work", 0755);
	snprintf(options, sizeof(options), "lowerdir=/host%s,upperdir=/rw/upper,workdir=/rw/work",
		 root);
	if (mount("overlay", "/root", "overlay", 0, options))
		die("overlay");
	while ((path = strsep(&paths, ":"))) {
		snprintf(from, sizeof(from), "/host%s", path);
		snprintf(to, sizeof(to), "/root%s", path);
		make_directories(to);
		if (mount(from, to, NULL, MS_BIND, NULL))
			die(path);
	}
	if (chdir("/root") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot("."))
		die("the new root");
	execl(init, init, NULL);
	die(init);
}
