/* isa.h: runs the machine code of a gfx11 code object (wave32) on the CPU, instruction by instruction, and checks what
 * a GPU does not tell.
 *
 * Checked while code runs: registers that are read before the load that fills them was waited for, numbers that come
 * of undefined registers or LDS, addresses outside of known memory, LDS and global races between waves, stale caches,
 * lanes that are off, the use of the matrix unit. What an instruction does is from AMD's RDNA3 ISA document; decoding
 * is llvm-objdump's text. Code runs without time; cycles.h predicts the time of a block afterwards. Hazards that the
 * hardware interlocks are not modelled, caches never evict, and how the matrix unit rounds inside is unknown: several
 * ways can be tried.
 *
 * One launch at a time. Out of memory ends the program.
 */
#ifndef HALO_TEST_GFX_SIM_ISA_H
#define HALO_TEST_GFX_SIM_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>

#pragma GCC visibility push(default) /* the interface of the library */

#define ISA_DEFECT_LIST(X)                                                                                             \
    X(NO_WAIT, "no wait")     /* a register is used while its load is under way */                                     \
    X(UNDEFINED, "undefined") /* an undefined value decides a branch, an address, or what is stored */                 \
    X(BOUNDS, "bounds")       /* an access outside of memory or LDS */                                                 \
    X(READ_ONLY, "read only") /* a write to what the launch must not write */                                          \
    X(LDS_RACE, "LDS race")   /* two waves, one LDS byte, one of them writes, no barrier between */                    \
    X(RACE, "race")           /* the same in global memory, in one block */                                            \
    X(STALE, "stale")         /* another wave's store is read before it is visible, or through an older line */        \
    X(BARRIER, "barrier")     /* at a barrier: LDS or global stores, or LDS loads, are under way */                    \
    X(EXEC, "exec")           /* a matrix instruction with lanes off, or halves of an operand that differ */           \
    X(REGISTERS, "registers") /* a register that the kernel's descriptor does not allocate */                          \
    X(HAZARD, "hazard")       /* a dependence that needs an instruction in between */                                  \
    X(UNKNOWN, "unknown")     /* an instruction that the interpreter does not have */                                  \
    X(HANG, "hang")           /* more instructions than the limit, or all waves wait at a barrier */
/* Facts to look at, fine where they are meant. */
#define ISA_FACT_LIST(X)                                                                                               \
    X(BLOCK_RACE, "block race")         /* a block reads or writes what another wrote in this launch */                \
    X(LANE_OFF, "lane off")             /* a lane that is off is read by another */                                    \
    X(EXEC_ZERO, "exec zero")           /* v_readfirstlane with all lanes off */                                       \
    X(MISALIGNED, "misaligned")         /* an access that is not aligned to its size, up to 16: slower */              \
    X(SAME, "same number")              /* two blocks store the same number at one place */                            \
    X(SCALAR_WRITTEN, "scalar written") /* a scalar load of what this launch wrote */

enum isa_kind {
#define X(id, name) ISA_##id,
    ISA_DEFECT_LIST(X) ISA_N_DEFECTS,
    ISA_FIRST_FACT = ISA_N_DEFECTS - 1,
    ISA_FACT_LIST(X) ISA_N_KINDS
#undef X
};

struct isa_kernel;

struct isa_finding {
    enum isa_kind kind;
    const struct isa_kernel *kernel;
    uint32_t pc; /* offset in the kernel */
    uint64_t count;
    char text[320]; /* of the first */
};

/* ---- code ---- */

struct isa_module;

/* Reads a code object; it stays open for good. A negative errno with the reason in `fault`. */
int isa_open(const char *path, struct isa_module **ret_module, struct halo_fault *fault);
uint32_t isa_n_kernels(const struct isa_module *module);
struct isa_kernel *isa_kernel_at(struct isa_module *module, uint32_t i);
struct isa_kernel *isa_find(struct isa_module *module, const char *name); /* NULL: there is none */
const char *isa_name(const struct isa_kernel *kernel);
uint32_t isa_block(const struct isa_kernel *kernel); /* threads it was compiled for */
uint32_t isa_args_bytes(const struct isa_kernel *kernel);

/* ---- memory that kernels may touch ---- */

void isa_add(void *p, size_t n);
void isa_remove(void *p); /* nothing happens if it was not added */

/* ---- launches ---- */

enum isa_order { ISA_IN_ORDER, ISA_REVERSE, ISA_RANDOM };
enum isa_wmma { ISA_WMMA_EXACT, ISA_WMMA_CHAIN, ISA_WMMA_FLUSH };

struct isa_options {
    enum isa_order order; /* of waves between barriers, and of blocks */
    uint32_t resident;    /* blocks at once; 0: 1, in random order 4 */
    uint64_t seed;
    int ulp;            /* other than 0: approximate instructions give one of the two floats beside the result */
    enum isa_wmma wmma; /* sums in double; one fused multiply-add after the other; f16 denormals are 0 */
    uint64_t limit;     /* instructions; 0: 4e9 */
    uint32_t record;    /* number + 1 of the block that isa_cycles() (cycles.h) replays; 0: none */
};

/* Grid and block as a launch has them. 0, -ENOTSUP for a kernel that wants what is not there, -EDEADLK when it could
 * not go on: what it ran into is among the findings. */
int isa_launch(struct isa_kernel *kernel, const uint32_t grid[3], uint32_t block, const void *args, size_t args_bytes,
               const struct isa_options *options, struct halo_fault *fault);

/* ---- what all launches found ---- */

struct isa_stats {
    uint64_t n_ins, n_valu, n_salu, n_vmem, n_smem, n_lds, n_wmma, n_dot, n_wait, n_branch, n_barrier, n_flat, n_trans;
    uint64_t n_vm_waits, n_vm_drains; /* waits for loads that had to wait, and those that left none under way */
    uint64_t n_barrier_drains, n_barrier_loads; /* barriers behind which loads were waited for, and how many */
};

void isa_reset(void);
struct isa_stats isa_stats(void);
size_t isa_n_findings(void);
const struct isa_finding *isa_finding_at(size_t i);
size_t isa_n_defects(void); /* sites */
const char *isa_kind_name(enum isa_kind kind);
/* Instructions of a kernel that ever ran, of those that can be reached. */
void isa_coverage(const struct isa_kernel *kernel, uint32_t *ret_run, uint32_t *ret_all);

/* ---- to test the checks: an instruction left out or, of a wait, weakened by one ---- */

enum isa_change { ISA_AS_IS, ISA_LEFT_OUT, ISA_WEAKER };

uint32_t isa_n_ins(const struct isa_kernel *kernel); /* 0 before its first launch */
const char *isa_text(const struct isa_kernel *kernel, uint32_t i);
uint64_t isa_n_runs(const struct isa_kernel *kernel, uint32_t i);
/* One at a time: undoes the one before. False: there is no such change to this instruction. */
bool isa_change(struct isa_kernel *kernel, uint32_t i, enum isa_change change);

#pragma GCC visibility pop

#endif
