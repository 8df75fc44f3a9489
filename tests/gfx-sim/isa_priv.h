/* isa_priv.h: what the files of the interpreter share. */
#ifndef HALO_TEST_GFX_SIM_ISA_PRIV_H
#define HALO_TEST_GFX_SIM_ISA_PRIV_H

#include <string.h>

#include "isa.h"

#define N_LANES 32
#define MOST_OPERANDS 9
#define MOST_PENDING 80 /* the counters end at 63 */

/* Numbers of scalar registers; those of vector registers from X_TMP on are the interpreter's own. */
enum { VCC = 106, NUL = 124, M0 = 125, EXEC = 126, N_SREG = 128, N_VREG = 258, X_TMP = 256 };

/* ---- instructions ---- */

enum operand_kind { O_NONE, O_V, O_S, O_IMM, O_OFF };

struct operand {
    enum operand_kind kind;
    uint8_t n;           /* registers */
    bool neg, abs;       /* modifiers */
    bool is_float;       /* the text had a point: for 16-bit operations its half stands in imm16 */
    uint16_t reg;        /* the first */
    uint32_t imm, imm16; /* O_IMM */
};

struct wave;
struct ins;
typedef void op_fn(struct wave *w, const struct ins *i);

enum ins_class { C_VALU, C_SALU, C_SMEM, C_VMEM, C_LDS, C_WAIT, C_BRANCH, C_MISC };
enum { F_RMW = 1, F_TRANS = 2, F_STORE = 4, F_QUARTER = 8, F_DOT = 16, F_WMMA = 32, F_FLAT = 64, F_CMPX = 128 };

/* A mnemonic without _e32, _e64, _dpp. Tables end with an entry without a name. */
struct op_entry {
    const char *name;
    op_fn *fn;
    enum ins_class cls;
    uint8_t n_dst, flags;
};
extern const struct op_entry isa_ops_valu[], isa_ops_bits[], isa_ops_wide[], isa_ops_half[], isa_ops_compare[],
    isa_ops_lanes[], isa_ops_scalar[], isa_ops_flow[], isa_ops_vector[], isa_ops_lds[];

struct registers {
    uint16_t first, n;
};

#define NO_COUNT 0xffff

struct ins {
    op_fn *fn, *fn2;     /* NULL: unknown; fn2: the second half of v_dual */
    struct ins *half[2]; /* its halves, the first with X_TMP for its destination */
    char name[40];       /* the mnemonic */
    uint32_t pc;         /* in the kernel */
    enum ins_class cls;
    uint8_t n, x_n; /* operands; of v_dual: those of the first half */
    uint8_t n_dst;  /* operands that are written, from the first */
    uint8_t xmask;  /* DPP row_xmask */
    bool dpp, bound_ctrl, clamp, glc, trans, wmma, dot, flat, quarter;
    struct operand o[MOST_OPERANDS];
    int32_t offset, offset0, offset1;
    uint8_t op_sel[4], op_sel_hi[4], neg_lo[4], neg_hi[4];
    int32_t target;        /* of a branch: in words behind it, then the index of an instruction */
    uint16_t vm, lgkm, vs; /* of waits; NO_COUNT: none */
    bool at_barrier;       /* a wait in front of a barrier */
    uint8_t n_vr, n_vw, n_sr, n_sw;
    struct registers vr[MOST_OPERANDS], vw[4], sr[8], sw[4]; /* that are read and written */
    char text[96];
};

struct isa_kernel {
    struct isa_module *module;
    char *name;
    uint64_t at; /* address in the file's text */
    uint32_t bytes, block;
    uint32_t vgprs, user_sgprs, lds_bytes, scratch_bytes, kernarg_bytes, rsrc1, rsrc2;
    uint16_t properties;
    uint32_t n_ins;
    struct ins *ins;
    uint64_t *ran; /* how often each ran */
};

/* ---- waves ---- */

enum { P_VM, P_LGKM, P_VS, N_COUNTERS };
enum pending_type { T_VMEM, T_LDS, T_SMEM, T_FLAT };

/* A load or store under way. */
struct pending {
    enum pending_type type;
    bool scalar, store;
    struct registers regs;
    uint32_t pc, id;
};

struct lds_cell { /* of a byte: who wrote and who read it last, by epochs between barriers */
    uint32_t wr_epoch, rd_epoch;
    int16_t wr_wave, rd_wave; /* index + 1; SEVERAL */
};

struct block {
    uint32_t id[3], linear;
    uint8_t *lds;
    bool *lds_defined;
    struct lds_cell *cells;
    uint32_t n_waves, n_arrived, n_done;
    struct wave *waves;
};

struct store_note { /* bytes of a store that is not visible yet */
    uint64_t at;
    uint32_t n, id;
};

/* ---- trace.c: what a recorded block executed ---- */

struct trace_event {
    const struct ins *ins;
    uint32_t first_line; /* of the wave's lines: those that it touches */
    uint16_t n_lines;
    uint16_t passes, least_passes; /* of LDS, with bank conflicts and without */
    bool jumps;
};
struct wave_trace {
    struct trace_event *events;
    uint64_t *lines;
    size_t n, cap, cap_lines;
    uint32_t n_lines;
};
struct isa_trace {
    const struct isa_kernel *kernel; /* NULL: none */
    uint32_t n_waves;
    struct wave_trace *waves;
};

struct wave {
    uint32_t v[N_VREG][N_LANES];
    uint32_t vp[N_VREG][2]; /* lanes whose low, high half is undefined */
    uint8_t vpend[N_VREG];  /* loads under way to it */
    uint32_t s[N_SREG], sp[N_SREG];
    uint8_t spend[N_SREG];
    uint32_t scc, sccp;
    const struct isa_kernel *k;
    struct block *b;
    uint32_t index, uid, epoch, cu, wgp;
    int32_t ip;
    bool at_barrier, done;
    struct pending pend[N_COUNTERS][MOST_PENDING];
    uint32_t n_pend[N_COUNTERS];
    uint32_t next_id;
    struct registers last_wmma; /* what the v_wmma just before writes; n 0: it was none */
    struct wave_trace *trace;   /* NULL: what it executes is not recorded */
    struct store_note *notes;   /* stays allocated from one wave to the next */
    uint32_t n_notes, cap_notes;
};

/* ---- launch.c ---- */

struct isa_run { /* the launch under way */
    uint64_t rng, time, n_ins, limit;
    bool stop;
    uint32_t record; /* a block's number + 1 */
    enum isa_wmma wmma;
    int ulp;
};
extern struct isa_run isa_run;
uint32_t isa_random(void);

/* ---- findings.c ---- */

extern struct isa_stats isa_totals;
__attribute__((format(printf, 4, 5))) void isa_report(const struct wave *w, const struct ins *i, enum isa_kind kind,
                                                      const char *format, ...);
/* realloc() to twice as much when `n` items are there, or the end of the program. */
void *isa_grow(void *items, size_t n, size_t *cap, size_t item_bytes);
void *isa_zeros(size_t n, size_t item_bytes);

/* ---- module.c, decode.c, operand.c ---- */

/* The output of a program about the module, line by line: fn returns false to stop. 0 or a negative errno. */
int isa_read_tool(const struct isa_module *module, const char *tool, const char *args, void (*fn)(char *line, void *ud),
                  void *ud, struct halo_fault *fault);
int isa_decode(struct isa_kernel *k, struct halo_fault *fault);
/* The address in memory of byte `pc` of a kernel. Its constants lie as far from there as in the file; its instructions
 * cannot be read. */
uint64_t isa_address(const struct isa_kernel *k, uint32_t pc);
/* Operands and modifiers "a, b, c mod:1" of an instruction, behind those that it has. False: one is unknown. */
bool isa_read_operands(struct ins *i, char *args);

/* ---- wave.c ---- */

void isa_wave_begin(struct wave *w, const struct isa_kernel *k, struct block *b, uint32_t index, uint32_t threads,
                    uint64_t args);
/* To its next stop, or for `budget` instructions. */
void isa_wave_run(struct wave *w, uint32_t budget);

/* ---- trace.c ---- */

const struct isa_trace *isa_trace(void);
void isa_trace_begin(const struct isa_kernel *k, uint32_t n_waves); /* forgets the one before; NULL and 0: alone */
struct wave_trace *isa_trace_wave(uint32_t index);
void isa_trace_ins(struct wave_trace *t, const struct ins *i);
/* Of the instruction that came last: it jumps; it accesses n bytes of LDS in some lanes; n bytes of memory in one. */
void isa_trace_jump(struct wave_trace *t);
void isa_trace_lds(struct wave_trace *t, const uint32_t at[N_LANES], uint32_t lanes, uint32_t n);
void isa_trace_memory(struct wave_trace *t, uint64_t at, uint32_t n);

/* ---- op_flow.c ---- */

void isa_pend(struct wave *w, const struct ins *i, int counter, enum pending_type type, bool scalar,
              struct registers regs, bool store, uint32_t id);

/* ---- memory.c, access.c ---- */

struct piece {
    uint8_t *p;
    size_t n;
    bool read_only;
    struct cell **page; /* who touched which byte */
    size_t n_pages;
};
#define PAGE_BYTES 4096
struct piece *isa_piece_of(uint64_t at, size_t n);
/* The last piece that begins at or before; NULL: none. */
struct piece *isa_piece_before(uint64_t at);
void isa_set_read_only(void *p, bool on);

void isa_access_begin(void);  /* of a launch */
void isa_access_forget(void); /* who touched what: pieces come or go */
void isa_access_give_back(struct cell *page);
/* A lane's access; false: out of bounds, which is reported. */
bool isa_load(struct wave *w, const struct ins *i, int lane, uint64_t at, uint32_t n, void *to);
bool isa_store(struct wave *w, const struct ins *i, int lane, uint64_t at, uint32_t n, const void *from, uint32_t id);
bool isa_load_scalar(struct wave *w, const struct ins *i, uint64_t at, uint32_t n, void *to);
uint32_t *isa_atomic(struct wave *w, const struct ins *i, int lane, uint64_t at);
void isa_stored(struct wave *w, uint32_t up_to_id); /* stores up to this id are visible */
void isa_drop_l0(struct wave *w);
void isa_drop_gl1(struct wave *w);

static inline float f_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof(f));
    return f;
}

static inline uint32_t u_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof(u));
    return u;
}

#endif
