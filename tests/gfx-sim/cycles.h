/* cycles.h: how long blocks take on a WGP of gfx1151, predicted from the instructions that one of them executed.
 *
 * A launch with isa_options.record keeps what each wave of one block executes: instructions, passes of its LDS
 * accesses (bank conflicts), lines of its memory accesses. isa_cycles() replays it clock by clock for as many blocks
 * as a WGP holds:
 *   - A SIMD issues one instruction a clock, of the wave that issued least recently. Waits, s_delay_alu, s_nop and
 *     s_clause take no slot.
 *   - VALU and matrix instructions share a pipe of the SIMD; LDS and L0 have one pipe for each CU.
 *   - Results are ready after a latency; loads after that of the cache that has the line, in order for each wave.
 *   - L0 is simulated (LRU). What it misses passes a queue of the WGP's share of the L2 bandwidth.
 *   - Blocks share no lines, begin together, and a block that ends is replaced at once.
 * Not modelled: instruction cache, register banks, sets of L0, DRAM bandwidth, clocks that sag, the last wave of blocks
 * of a launch. No figure has been measured on this chip; docs/KERNELS.md has the sources of the constants and compares
 * the model with published kernels.
 */
#ifndef HALO_TEST_GFX_SIM_CYCLES_H
#define HALO_TEST_GFX_SIM_CYCLES_H

#include <stdint.h>

#pragma GCC visibility push(default)

struct isa_machine {
    uint32_t n_wgps, n_simds, n_cus; /* SIMDs and CUs of a WGP */
    uint32_t mhz;
    uint32_t waves, vgprs, vgpr_granule;     /* of a SIMD */
    uint32_t lds_bytes, lds_granule, blocks; /* of a WGP */
    uint32_t wmma_clocks, quarter_clocks;    /* of the pipe: matrix products, products of 32-bit integers */
    uint32_t trans_clocks;                   /* of a unit of its own: v_exp, v_rcp, ... */
    uint32_t valu_latency, trans_latency;    /* until a result can be read */
    uint32_t salu_latency, smem_latency, jump_latency, barrier_latency;
    uint32_t lds_latency, l0_latency, far_latency; /* behind the pipe; far: a line that L0 does not have */
    uint32_t line_bytes, l0_lines;                 /* of a CU */
    uint32_t far_bytes;                            /* a clock, of a WGP */
};
extern const struct isa_machine isa_gfx1151;

/* What can be busy, and how many a WGP has: SIMDs for the first four, CUs for LDS and L0, one L2 queue. */
#define ISA_UNIT_LIST(X)                                                                                               \
    X(ISSUE, "issue slots")                                                                                            \
    X(VALU, "VALU") /* without matrix products, which have the same pipe */                                            \
    X(WMMA, "matrix unit")                                                                                             \
    X(TRANS, "transcendentals")                                                                                        \
    X(LDS, "LDS")                                                                                                      \
    X(L0, "L0")                                                                                                        \
    X(FAR, "L2 bandwidth") /* by lines that L0 did not have */
/* What the wave that goes on first waits for while its SIMD's pipe is idle. */
#define ISA_STALL_LIST(X)                                                                                              \
    X(SLOT, "other instructions") /* the slot went to LDS, memory, scalar */                                           \
    X(LOADS, "loads")                                                                                                  \
    X(LDS, "LDS")                                                                                                      \
    X(SCALAR, "scalar loads")                                                                                          \
    X(STORES, "stores")                                                                                                \
    X(BARRIER, "barriers")                                                                                             \
    X(RESULT, "results")                                                                                               \
    X(JUMP, "jumps and waits without cost") /* a wave issues at most once a clock */                                   \
    X(EMPTY, "no wave")

enum isa_unit {
#define X(id, name) ISA_UNIT_##id,
    ISA_UNIT_LIST(X) ISA_N_UNITS
#undef X
};
enum isa_stall {
#define X(id, name) ISA_STALL_##id,
    ISA_STALL_LIST(X) ISA_N_STALLS
#undef X
};

struct isa_cycles {
    uint64_t clocks;               /* from the first block's begin to the last one's end */
    uint32_t n_blocks, n_resident; /* that ran; at once */
    uint64_t busy[ISA_N_UNITS];    /* clocks, the sum over the units of a kind */
    uint64_t idle[ISA_N_STALLS];   /* clocks of SIMDs */
    uint64_t n_ins, n_wmma;
    uint64_t lds_passes, lds_least; /* with bank conflicts, and without */
    uint64_t far_bytes, load_bytes; /* that L0 missed, of the lines that loads and stores touched */
};

/* Blocks of a kernel that a WGP holds, with its registers, LDS and waves; 0: none. */
struct isa_kernel;
uint32_t isa_resident(const struct isa_machine *machine, const struct isa_kernel *kernel, uint32_t n_waves);
/* Replays the block that the last launch recorded, n_rounds times for each resident block; n_resident 0: as many as
 * fit. -ENOENT: no block was recorded. -E2BIG: a WGP cannot hold one. */
int isa_cycles(const struct isa_machine *machine, uint32_t n_resident, uint32_t n_rounds, struct isa_cycles *ret);

double isa_busy(const struct isa_machine *machine, const struct isa_cycles *cycles, enum isa_unit unit); /* 0 .. 1 */
/* The busiest unit, if it is busy for four fifths of the time or more; else what the pipe waits for most. */
const char *isa_limit(const struct isa_machine *machine, const struct isa_cycles *cycles);

#pragma GCC visibility pop

#endif
