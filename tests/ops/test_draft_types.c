/* test_draft_types.c: real files: every type of the same model holds the same weights, within the error of the type.
 *
 * The draft models in ../shared/models were quantized from one F16 file by another program, so a field that is read
 * from the wrong place shows as an error near or above 1. The bounds are the errors of a correct reading, rounded up:
 * root mean square of the difference over all matrices, relative to the weights.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/fault.h>
#include <matmul/matmul.h>
#include <store/gguf.h>

#include "blocks.h"

static const char *shared_dir(void)
{
    const char *given = getenv("HALO_SHARED"), *root = getenv("HALO_SOURCE_ROOT");
    static char path[4096];
    if (given)
        return given;
    snprintf(path, sizeof path, "%s/../shared", root ? root : ".");
    return path;
}

static struct halo_gguf *open_draft(const char *type)
{
    char path[4200];
    struct halo_fault fault = {0};
    struct halo_gguf *gguf = NULL;
    snprintf(path, sizeof path, "%s/models/draft-%s.gguf", shared_dir(), type);
    if (halo_gguf_open(&gguf, path, &fault) != 0)
        fail_msg("%s does not open", path);
    return gguf;
}

static void *read_tensor(const struct halo_gguf *gguf, const struct halo_gguf_tensor *tensor)
{
    void *bytes = ops_alloc(tensor->n_bytes);
    FILE *file = fopen(halo_gguf_part_path(gguf, tensor->part), "rb");
    assert_non_null(file);
    assert_int_equal(fseek(file, (long)tensor->offset, SEEK_SET), 0);
    assert_int_equal(fread(bytes, 1, tensor->n_bytes, file), tensor->n_bytes);
    fclose(file);
    return bytes;
}

struct errors {
    double difference, size; /* sums of squares */
    unsigned n_matrices;
};

/* The tensor by dequantize, and again by the packed form; both must agree bit for bit. */
static void tensor_floats(const struct halo_gguf *gguf, const struct halo_gguf_tensor *tensor, float *ret)
{
    uint32_t n_cols = (uint32_t)tensor->dims[0], n_rows = (uint32_t)tensor->dims[1];
    uint8_t *file = read_tensor(gguf, tensor);
    halo_dequantize(tensor->type, file, (uint64_t)n_cols * n_rows, ret);
    void *packed = ops_alloc(halo_cpu_matrix_bytes(tensor->type, n_cols, n_rows));
    void *scratch = ops_alloc(halo_cpu_matrix_scratch_bytes(tensor->type, n_cols));
    float *row = ops_alloc(n_cols * sizeof(float));
    struct halo_cpu_matrix matrix;
    halo_cpu_matrix_pack(tensor->type, n_cols, n_rows, file, packed, scratch);
    halo_cpu_matrix_init(&matrix, tensor->type, n_cols, n_rows, packed);
    for (uint32_t r = 0; r < n_rows; r++) {
        halo_cpu_matrix_row(&matrix, r, row);
        assert_memory_equal(row, ret + (size_t)r * n_cols, n_cols * sizeof(float));
    }
    free(file);
    free(packed);
    free(scratch);
    free(row);
}

static void compare(const struct halo_gguf *gguf, enum halo_type type, const struct halo_gguf *exact,
                    struct errors *ret)
{
    *ret = (struct errors){0};
    for (uint64_t t = 0; t < halo_gguf_n_tensors(exact); t++) {
        const struct halo_gguf_tensor *right = halo_gguf_tensor(exact, t);
        const struct halo_gguf_tensor *tensor = halo_gguf_find_tensor(gguf, right->name);
        assert_non_null(tensor);
        if (right->n_dims != 2)
            continue;
        assert_int_equal(tensor->type, type);
        size_t n = (size_t)right->dims[0] * right->dims[1];
        float *a = ops_alloc(n * sizeof(float)), *b = ops_alloc(n * sizeof(float));
        tensor_floats(exact, right, a);
        tensor_floats(gguf, tensor, b);
        for (size_t i = 0; i < n; i++) {
            ret->difference += ((double)b[i] - (double)a[i]) * ((double)b[i] - (double)a[i]);
            ret->size += (double)a[i] * (double)a[i];
        }
        ret->n_matrices++;
        free(a);
        free(b);
    }
}

static void every_type_holds_the_same_weights(void **state)
{
    static const struct {
        enum halo_type type;
        double bound;
    } bounds[] = {
        {HALO_TYPE_F16, 0},       {HALO_TYPE_BF16, 0.002},   {HALO_TYPE_Q8_0, 0.006},  {HALO_TYPE_Q6_K, 0.02},
        {HALO_TYPE_Q5_0, 0.05},   {HALO_TYPE_Q5_1, 0.045},   {HALO_TYPE_Q5_K, 0.04},   {HALO_TYPE_Q4_0, 0.1},
        {HALO_TYPE_Q4_1, 0.09},   {HALO_TYPE_Q4_K, 0.08},    {HALO_TYPE_IQ4_NL, 0.08}, {HALO_TYPE_IQ4_XS, 0.08},
        {HALO_TYPE_MXFP4, 0.13},  {HALO_TYPE_Q3_K, 0.16},    {HALO_TYPE_Q2_K, 0.3},    {HALO_TYPE_IQ1_S, 0.51},
        {HALO_TYPE_IQ1_M, 0.48},  {HALO_TYPE_IQ2_XXS, 0.36}, {HALO_TYPE_IQ2_XS, 0.32}, {HALO_TYPE_IQ2_S, 0.26},
        {HALO_TYPE_IQ3_XXS, 0.2}, {HALO_TYPE_IQ3_S, 0.15},   {HALO_TYPE_TQ1_0, 0.83},  {HALO_TYPE_TQ2_0, 0.83},
        {HALO_TYPE_NVFP4, 0.11},  {HALO_TYPE_Q1_0, 0.61},    {HALO_TYPE_Q2_0, 0.73},
    };
    struct halo_gguf *exact = open_draft("F16");
    for (unsigned i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        const char *name = halo_type_info(bounds[i].type).name;
        struct halo_gguf *gguf = open_draft(name);
        struct errors errors;
        compare(gguf, bounds[i].type, exact, &errors);
        assert_int_equal(errors.n_matrices, 15);
        double error = sqrt(errors.difference / errors.size);
        print_message("%-8s relative error %.5f, at most %.5f\n", name, error, bounds[i].bound);
        assert_true(error <= bounds[i].bound);
        assert_true(bounds[i].bound == 0 || error >= bounds[i].bound / 3); /* the bound means something */
        halo_gguf_close(gguf);
    }
    halo_gguf_close(exact);
}

int main(void)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/models/draft-F16.gguf", shared_dir());
    if (access(path, R_OK) != 0) {
        fprintf(stderr, "SKIPPED: no %s\n", path);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_holds_the_same_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
