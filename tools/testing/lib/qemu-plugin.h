/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What plugins of QEMU's TCG share: the interface, and looking at x86 instructions.
 *
 * Debian ships no qemu-plugin.h. What is declared here is version 1 of the API,
 * from docs/devel/tcg-plugins.rst and include/qemu/qemu-plugin.h of QEMU 7.2.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_RW = 3 };
typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;
typedef void (*tb_trans_cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);
typedef void (*exec_cb)(unsigned int cpu, void *data);
typedef void (*mem_cb)(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data);
typedef void (*exit_cb)(qemu_plugin_id_t id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, tb_trans_cb cb);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, exec_cb cb,
					    enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *insn, mem_cb cb,
				      enum qemu_plugin_cb_flags flags,
				      enum qemu_plugin_mem_rw rw, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, exit_cb cb, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t i);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);
unsigned int qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t info);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t info);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t info, uint64_t vaddr);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *addr);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *addr);

EXPORT int qemu_plugin_version = 1;

/* An instruction without its prefixes. */
struct decoded {
	const uint8_t *code;
	size_t len;
	bool lock;
	bool gs;
	bool rex_b;
};

static inline struct decoded decode(const uint8_t *code, size_t len)
{
	struct decoded d = {};
	size_t i;

	for (i = 0; i < len; i++) {
		switch (code[i]) {
		case 0xf0:
			d.lock = true;
			continue;
		case 0x65:
			d.gs = true;
			continue;
		case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x66: case 0x67:
		case 0xf2: case 0xf3:
			continue;
		case 0x40 ... 0x4f:
			d.rex_b = code[i] & 1;
			continue;
		}
		break;
	}
	d.code = code + i;
	d.len = len - i;
	return d;
}

/* A lock prefix, or xchg with memory, which is locked without one. */
static inline bool is_atomic(const uint8_t *code, size_t len)
{
	struct decoded d = decode(code, len);

	return d.lock || (d.len > 1 && (d.code[0] & 0xfe) == 0x86 && d.code[1] < 0xc0);
}
