/* program_toy.c: programs for a GPU that needs no runtime (contract in program_toy.h). */
#include "program_toy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "program_text.h"

uint16_t program_value(struct fixture *f, const char *name, uint32_t width)
{
    uint16_t v = fixture_value(f, width);
    f->values[v].name = name;
    return v;
}

uint32_t program_weight(struct fixture *f, const char *name, enum halo_type type, enum halo_weight_role role,
                        uint32_t n_cols, uint32_t n_rows, uint32_t n_experts)
{
    uint32_t w = fixture_weight(f, type, role, n_cols, n_rows, n_experts, 1);
    snprintf(f->weights[w].name, sizeof(f->weights[w].name), "%s", name);
    return w;
}

void program_device_init(struct halo_device *device, const char *const *without)
{
    static int kernel;
    *device = (struct halo_device){.properties = {.arch = "toy", .wave_size = 32, .n_units = 4, .integrated = true},
                                   .kernels_path = "kernels.toy"};
    for (uint32_t i = 0; i < halo_hip_n_variants; i++) {
        device->functions[i] = &kernel;
        device->n_resident[i] = 24;
        for (const char *const *name = without; *name; name++)
            if (strncmp(halo_hip_variants[i].kernel, *name, strlen(*name)) == 0)
                device->functions[i] = NULL;
    }
}

void program_model_init(struct halo_device_model *model, struct halo_device *device, const struct halo_plan *plan)
{
    *model = (struct halo_device_model){.device = device, .plan = plan};
    model->weights = calloc(plan->n_weights, sizeof(*model->weights));
    model->scratch.values = calloc(plan->n_values, sizeof(*model->scratch.values));
    assert_true(model->weights && model->scratch.values);
    model->weight_region.device = (uint8_t *)0x100000000;
    model->kv_region.device = (uint8_t *)0x200000000;
    model->logits_device = (float *)0x400000000;
    halo_hip_groups_place(plan, model->kv_first);
    halo_hip_weights_place(plan, true, model->weights);
    halo_hip_scratch_carve(plan, true, (uint8_t *)0x300000000, &model->scratch);
    model->experts.slots.base = (uint8_t *)0x500000000;
    model->experts.place_device = (uint32_t *)0x600000000;
    for (uint32_t i = 0, n = 0; i < plan->n_weights; i++)
        if (plan->weights[i].streamed > 0) {
            model->experts.n_expert = plan->weights[i].n_experts;
            model->weights[i].at = 0x4000 * n++;
            model->weights[i].expert_bytes = 0xc000;
        }
}

void program_model_finish(struct halo_device_model *model)
{
    halo_hip_program_finish(&model->program);
    free(model->weights);
    free(model->scratch.values);
}

void program_compile(struct fixture *f, struct halo_device *device, struct halo_device_model *model,
                     const char *const *without)
{
    char reason[HALO_DEVICE_REASON] = "";
    program_device_init(device, without);
    for (uint32_t i = 0; i < f->plan.n_ops; i++)
        if (halo_hip_supports(device, &f->plan, i, reason))
            fail_msg("op %u: %s", i, reason);
    program_model_init(model, device, &f->plan);
    if (halo_hip_program_compile(&model->program, model, reason))
        fail_msg("%s", reason);
}

static char *file_read(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 18);
    assert_non_null(text);
    if (!file)
        fail_msg("%s is missing (HALO_UPDATE_PLANS=1 writes it)", path);
    assert_true(fread(text, 1, (1 << 18) - 1, file) > 0);
    fclose(file);
    return text;
}

void program_compare(const char *name, const char *text)
{
    const char *root = getenv("HALO_SOURCE_ROOT");
    char path[4096];
    snprintf(path, sizeof(path), "%s/tests/unit/kernels/programs/%s.txt", root ? root : ".", name);
    if (getenv("HALO_UPDATE_PLANS")) {
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        assert_true(fputs(text, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    char *wanted = file_read(path);
    assert_string_equal(text, wanted);
    free(wanted);
}

char *program_decode_text(struct fixture *f, const char *const *without)
{
    static struct halo_device device;
    static struct halo_device_model model;
    char *text = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&text, &n);
    assert_non_null(to);
    program_compile(f, &device, &model, without);
    program_print_list(to, &model, 0, HALO_HIP_APART);
    program_model_finish(&model);
    assert_int_equal(fclose(to), 0);
    return text;
}
