/* cpu_fixture.h: plans built by hand, with seeded weights, for the tests of the CPU device.
 *
 * A plan is filled op by op, then opened on a device of a variant and a number of threads; the same fixture can be
 * opened again and again. Inputs come from EMBED ops: an f32 table whose row t is the input of a row with token t.
 * Weights are kept in file layout for the test's own reference. Any failure fails the running test. Not thread-safe, as
 * cmocka is not.
 */
#ifndef HALO_TESTS_CPU_FIXTURE_H
#define HALO_TESTS_CPU_FIXTURE_H

#include <stdbool.h>

#include <kernels/device.h>

#define FIXTURE_MAX 400
/* How many threads a test of the device runs with. */
#define MOST_THREADS 3
/* Which types of cache a test goes through. AddressSanitizer looks at memory, for which one number of threads, a plain
 * type and a quantized one do. */
#ifdef __SANITIZE_ADDRESS__
#define FEWEST_THREADS MOST_THREADS
#define KV_FIRST HALO_KV_F16
#define KV_STEP 2
#else
#define FEWEST_THREADS 1
#define KV_FIRST HALO_KV_F32
#define KV_STEP 1
#endif

struct fixture {
    struct halo_plan plan;
    struct halo_op ops[FIXTURE_MAX];
    struct halo_weight weights[FIXTURE_MAX];
    struct halo_value values[FIXTURE_MAX];
    struct halo_rope ropes[4];
    double freqs[4][256];
    uint8_t *bytes[FIXTURE_MAX]; /* of the weights, as in a file */
    uint64_t file_bytes;
    const struct halo_device_ops *device_ops; /* the CPU device, unless a test sets another */
    const char *library;                      /* of that other device */
    const struct halo_device_ops *stage_ops;  /* of a pipeline's stages, with n_stages */
    uint32_t n_stages;
    const struct halo_expert_source *source; /* of streamed experts, or NULL */
    struct halo_expert_slots *slots;         /* that a device takes for them, if it does */
    struct halo_device **kept; /* NULL, or a device that fixtures share: the first one opens it, none closes it */
    struct halo_device *device;
    struct halo_device_model *model;
};

/* n_context positions, n_context / 32 + 1 pages for each of 8 sequences at most. */
void fixture_init(struct fixture *f, uint32_t n_vocab, uint32_t max_rows, uint32_t n_context);
void fixture_finish(struct fixture *f);
void fixture_kv(struct fixture *f, enum halo_kv_type type, uint32_t n_layers, uint32_t n_head_kv, uint32_t k_dim,
                uint32_t v_dim);
/* One more group of the cache, with as many pages as the first. Returns its index. */
uint32_t fixture_kv_add(struct fixture *f, enum halo_kv_type type, uint32_t n_layers, uint32_t n_head_kv,
                        uint32_t k_dim, uint32_t v_dim);
/* A group of states, with a slot for each of 8 sequences. Returns its index. */
uint32_t fixture_states(struct fixture *f, uint32_t n_layers, uint32_t width);

uint16_t fixture_value(struct fixture *f, uint32_t width);
/* Seeded weights of about the given size, which repeat after some thousand blocks; n_rows 1 and n_experts 1 for a
 * vector. */
uint32_t fixture_weight(struct fixture *f, enum halo_type type, enum halo_weight_role role, uint32_t n_cols,
                        uint32_t n_rows, uint32_t n_experts, double size);
uint32_t fixture_rope(struct fixture *f, enum halo_rope_pairing pairing, uint32_t n_rot, float scale, double base);
void fixture_op(struct fixture *f, struct halo_op op);
/* An RMS norm without a bias, eps 1e-6, of x + add. */
void fixture_rmsnorm(struct fixture *f, uint32_t weight, uint16_t x, uint16_t add, uint16_t out);
/* A value that is row token[r] of a new f32 table. Returns the value; the table is the last weight. */
uint16_t fixture_input(struct fixture *f, uint32_t width, double size);
/* The weight as floats, freshly allocated, in file order. */
float *fixture_floats(const struct fixture *f, uint32_t weight);

/* Whether this machine has the variant; prints a message when it does not. */
bool fixture_has(const char *variant);
/* Opens device and model and loads the weights, or closes both. */
void fixture_open(struct fixture *f, const char *variant, uint32_t n_threads);
void fixture_close(struct fixture *f);

/* Runs rows that all belong to one sequence whose pages are scattered over the pool by `which`, in each group in
 * another way: row r has token
 * tokens[r] at position first_pos + r; logits (may be NULL) of every row. */
void fixture_run(struct fixture *f, uint32_t which, const int32_t *tokens, uint32_t n_rows, int32_t first_pos,
                 float *logits);
/* The pages of sequence `which` of at most 8 in the first group; those in group g are of sequence which + 3 g. */
const uint32_t *fixture_pages(const struct fixture *f, uint32_t which, uint32_t *ret_n);
/* The value of a row after the last run; n floats are asserted to be its width. */
void fixture_peek(struct fixture *f, uint16_t value, uint32_t row, float *ret);

/* A seeded stream of numbers in -1..1. */
double fixture_random(uint64_t *state);
/* The types of weights that an op is to be tested with, n of them: every one; with HALO_TEST_TYPES=few one of each way
 * of unpacking, for builds in which all would take many minutes. */
const enum halo_type *fixture_types(uint32_t *n);

#endif
