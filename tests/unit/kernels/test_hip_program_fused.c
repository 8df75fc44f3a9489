/* test_hip_program_fused.c: which launches a dense layer has where the kernels exist that take several ops, against its
 * golden text, and on which GPUs it has them; and how early a product of experts may read their choice.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "program_text.h"
#include "program_toy.h"

enum { WIDTH = 512, FF = 768, INNER = 256, EXPERTS = 4, USED = 2, VOCAB = 96, MAX_ROWS = 4 };

static const char *const all[] = {NULL};

static struct halo_op norm(uint32_t weight, uint16_t x, uint16_t add, uint16_t out)
{
    return (struct halo_op){
        HALO_OP_RMSNORM,
        .u.rmsnorm = {
            .weight = weight, .x = x, .add = add, .out = out, .eps = 1e-6f, .add_scale = 1, .bias = HALO_WEIGHT_NONE}};
}

struct layer {
    uint32_t out, gate, up, down, q, k, v;
};

/* The product of the attention's output, a norm, gate and up with their GLU, down, and the next layer's q, k and v. */
static struct layer build_layer(struct fixture *f, uint32_t width, uint32_t ff, uint32_t inner)
{
    const enum halo_weight_role matrix = HALO_WEIGHT_MATRIX, vector = HALO_WEIGHT_VECTOR;
    const uint32_t none = HALO_WEIGHT_NONE;
    fixture_init(f, VOCAB, MAX_ROWS, 512);
    uint16_t x = program_value(f, "x", width), heads = program_value(f, "heads", inner),
             out = program_value(f, "out", width), y = program_value(f, "y", width),
             gate = program_value(f, "gate", ff), up = program_value(f, "up", ff), q = program_value(f, "q", inner),
             k = program_value(f, "k", inner), v = program_value(f, "v", inner);
    uint32_t w_norm = program_weight(f, "w_norm", HALO_TYPE_F32, vector, width, 1, 1),
             w_out = program_weight(f, "w_out", HALO_TYPE_Q4_K, matrix, inner, width, 1),
             w_gate = program_weight(f, "w_gate", HALO_TYPE_Q4_K, matrix, width, ff, 1),
             w_up = program_weight(f, "w_up", HALO_TYPE_Q4_K, matrix, width, ff, 1),
             w_down = program_weight(f, "w_down", HALO_TYPE_Q6_K, matrix, ff, width, 1),
             w_q = program_weight(f, "w_q", HALO_TYPE_Q4_K, matrix, width, inner, 1),
             w_k = program_weight(f, "w_k", HALO_TYPE_Q4_K, matrix, width, inner, 1),
             w_v = program_weight(f, "w_v", HALO_TYPE_Q6_K, matrix, width, inner, 1),
             table = program_weight(f, "table", HALO_TYPE_Q8_0, matrix, width, VOCAB, 1);
    const struct halo_op ops[] = {{HALO_OP_EMBED, .u.embed = {table, x, 1}},
                                  {HALO_OP_MATMUL, .u.matmul = {heads, 1, {w_out}, {none}, {out}}},
                                  norm(w_norm, x, out, y),
                                  {HALO_OP_MATMUL, .u.matmul = {y, 2, {w_gate, w_up}, {none, none}, {gate, up}}},
                                  {HALO_OP_GLU, .u.glu = {gate, up, gate, HALO_GLU_SILU, 0}},
                                  {HALO_OP_MATMUL, .u.matmul = {gate, 1, {w_down}, {none}, {out}}},
                                  norm(w_norm, x, out, y),
                                  {HALO_OP_MATMUL, .u.matmul = {y, 3, {w_q, w_k, w_v}, {none, none, none}, {q, k, v}}}};
    for (uint32_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        fixture_op(f, ops[i]);
    return (struct layer){w_out, w_gate, w_up, w_down, w_q, w_k, w_v};
}

static void launches_of_a_dense_layer(void **state)
{
    static struct fixture f;
    const struct layer w = build_layer(&f, WIDTH, FF, INNER);
    char *text = program_decode_text(&f, all);
    program_compare("dense", text);
    free(text);
    /* Where two layers are streamed: the same launches, with addresses that a step fills in, and their stops. */
    const uint32_t layers[][2] = {{w.out, 1}, {w.gate, 1}, {w.up, 1}, {w.down, 1}, {w.q, 2}, {w.k, 2}, {w.v, 2}};
    for (uint32_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++)
        f.weights[layers[i][0]].streamed = layers[i][1];
    text = program_decode_text(&f, all);
    program_compare("dense-streamed", text);
    free(text);
    fixture_finish(&f);
}

/* The blocks of the last turn keep a GPU of AMD's busy when they are a few for each of its units; NVIDIA's wants all
 * that it holds. */
static void the_last_turn_keeps_the_gpu_busy(void **state)
{
    static const struct {
        const char *arch;
        uint32_t n_units, norm, glu; /* resident blocks */
        uint32_t width;
        bool has_norm, has_glu;
    } cases[] = {{"gfx1151", 20, 60, 120, 4096, true, true},   {"gfx1151", 20, 60, 120, 2048, true, true},
                 {"gfx1151", 20, 63, 127, 2048, false, false}, {"sm_90", 132, 132, 396, 4096, true, true},
                 {"sm_90", 132, 132, 396, 2048, false, true},  {"sm_90", 132, 132, 264, 4096, true, false}};
    for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        static struct fixture f;
        static struct halo_device device;
        struct halo_device_model model;
        char reason[HALO_DEVICE_REASON] = "", *text = NULL;
        size_t n = 0;
        build_layer(&f, cases[i].width, 12288, 4096);
        program_device_init(&device, all);
        snprintf(device.properties.arch, sizeof(device.properties.arch), "%s", cases[i].arch);
        device.properties.n_units = cases[i].n_units;
        for (uint32_t v = 0; v < halo_hip_n_variants; v++)
            device.n_resident[v] = halo_hip_variants[v].op == HALO_HIP_GEMV_NORM ? cases[i].norm : cases[i].glu;
        program_model_init(&model, &device, &f.plan);
        assert_int_equal(halo_hip_program_compile(&model.program, &model, reason), 0);
        FILE *to = open_memstream(&text, &n);
        assert_non_null(to);
        program_print_list(to, &model, 0, HALO_HIP_APART);
        assert_int_equal(fclose(to), 0);
        assert_int_equal(strstr(text, "gemv_norm_q4_k") != NULL, cases[i].has_norm);
        assert_int_equal(strstr(text, "gemv_glu_q4_k") != NULL, cases[i].has_glu);
        free(text);
        program_model_finish(&model);
        fixture_finish(&f);
    }
}

/* Behind the launch of the choice itself a product waits for it; behind another one it need not. */
static void a_choice_is_read_early_behind_another_launch(void **state)
{
    for (int between = 0; between < 2; between++) {
        static struct fixture f;
        fixture_init(&f, VOCAB, MAX_ROWS, 512);
        uint16_t logits = program_value(&f, "logits", EXPERTS), choice = program_value(&f, "choice", 2 * USED),
                 rows = program_value(&f, "rows", USED * INNER), out = program_value(&f, "out", USED * INNER);
        uint32_t w = program_weight(&f, "w", HALO_TYPE_F32, HALO_WEIGHT_EXPERTS, INNER, INNER, EXPERTS);
        fixture_op(&f, (struct halo_op){HALO_OP_MOE_ROUTE, .u.moe_route = {logits, choice, EXPERTS, USED, true, 1,
                                                                           .bias = HALO_WEIGHT_NONE}});
        if (between)
            fixture_op(&f, (struct halo_op){HALO_OP_GLU, .u.glu = {rows, rows, rows, HALO_GLU_SILU, 0}});
        fixture_op(&f, (struct halo_op){HALO_OP_MOE_MATMUL,
                                        .u.moe_matmul = {rows, choice, 1, true, {w}, {out}, USED, HALO_WEIGHTS_NONE}});
        char *text = program_decode_text(&f, all);
        assert_non_null(strstr(text, "moe_gemv_f32"));
        assert_int_equal(strstr(text, "early=1") != NULL, between);
        free(text);
        fixture_finish(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches_of_a_dense_layer),
        cmocka_unit_test(the_last_turn_keeps_the_gpu_busy),
        cmocka_unit_test(a_choice_is_read_early_behind_another_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
