/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the kernel's sources need and sparse 0.6.4 does not have.
 *
 * A file in which sparse meets an error is not analysed further, and these two are in
 * every file: scripts/checker-valid.sh then has make skip sparse with a mere warning, and
 * the static_assert() of MODULE_LICENSE() and its like is "bad constant expression".
 */
#define __typeof_unqual__ __typeof__
#define __builtin_strlen(s) (sizeof(s) - 1)
