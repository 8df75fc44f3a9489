/* test_load.c: every weight gets the bytes of its tensor, those of experts that lie apart in the file included, and is
 * committed once, when all of them are there. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <engine/load.h>

#include "toy_gguf.h"

/* The device: memory of its own for each weight. */
struct halo_device_model {
    const struct halo_plan *plan;
    uint8_t **data;
    uint32_t *n_commits;
    uint32_t n_wrong; /* committed before its bytes were there */
};

/* The byte of the file at this offset. */
static uint8_t byte_at(uint64_t offset)
{
    return (uint8_t)(offset * 2654435761u >> 13);
}

static uint64_t count_wrong(const struct halo_weight *weight, const uint8_t *data)
{
    uint64_t n_wrong = 0, piece = weight->n_bytes / halo_weight_n_pieces(weight);
    for (uint64_t i = 0; i < weight->n_bytes; i++)
        n_wrong += data[i] != byte_at(weight->offset + i / piece * weight->expert_step + i % piece);
    return n_wrong;
}

static void slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    *ret = (struct halo_device_slot){.data = model->data[index]};
}

static int commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    (void)reason;
    model->n_commits[index]++;
    model->n_wrong += count_wrong(&model->plan->weights[index], model->data[index]) > 0;
    return 0;
}

/* Bytes that tell every place of the file from its neighbours, where its tensors are. */
static void pattern_write(const char *path, uint64_t first)
{
    struct stat st;
    int fd = open(path, O_RDWR);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    uint64_t n = (uint64_t)st.st_size - first;
    uint8_t *bytes = malloc(n);
    assert_non_null(bytes);
    for (uint64_t i = 0; i < n; i++)
        bytes[i] = byte_at(first + i);
    assert_int_equal(pwrite(fd, bytes, n, (off_t)first), n);
    assert_int_equal(close(fd), 0);
    free(bytes);
}

static struct halo_model *model_make(const char *path)
{
    struct halo_fault fault = {0};
    struct halo_model *model = NULL;
    struct halo_toy *toy = halo_toy_create("qwen3moe");
    uint64_t first = UINT64_MAX;

    halo_toy_remove(toy, "blk.1.ffn_gate_exps.weight");
    halo_toy_remove(toy, "blk.1.ffn_up_exps.weight");
    halo_toy_add(toy, "blk.1.ffn_gate_up_exps.weight", HALO_TYPE_F16, 32, 128, 4);
    halo_toy_write(toy, path);
    halo_toy_destroy(toy);
    for (int pass = 0; pass < 2; pass++) { /* the second one has the file's present state */
        halo_model_destroy(model);
        if (halo_model_create(&model, path, NULL, &fault) < 0)
            fail_msg("%s", fault.text);
        for (uint32_t i = 0; i < model->plan.n_weights; i++)
            first = model->plan.weights[i].offset < first ? model->plan.weights[i].offset : first;
        if (pass == 0)
            pattern_write(path, first);
    }
    return model;
}

static void weights_have_their_bytes(void **state)
{
    char path[] = "/tmp/halo-test-load-XXXXXX";
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0 && close(fd) == 0);
    struct halo_instance *instance = calloc(1, sizeof(*instance));
    struct halo_load *load = calloc(1, sizeof(*load));
    struct halo_mailbox port;
    assert_true(instance && load);
    instance->model = model_make(path);
    const struct halo_plan *plan = &instance->model->plan;
    struct halo_device_model device = {.plan = plan,
                                       .data = calloc(plan->n_weights, sizeof(*device.data)),
                                       .n_commits = calloc(plan->n_weights, sizeof(*device.n_commits))};
    uint32_t n_apart = 0;
    assert_true(device.data && device.n_commits);
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        device.data[i] = calloc(1, plan->weights[i].n_bytes);
        assert_non_null(device.data[i]);
        n_apart += halo_weight_n_pieces(&plan->weights[i]) > 1;
    }
    assert_int_equal(n_apart, 2);
    instance->device_model = &device;
    load->instance = instance;
    assert_int_equal(halo_mailbox_init(&port, false), 0);
    const struct halo_device_ops ops = {.weight_slot = slot, .weight_commit = commit};
    if (halo_load_read(load, &ops, &port, NULL) < 0)
        fail_msg("%s", load->fault.text);
    halo_mailbox_drain(&port);
    assert_int_equal(device.n_wrong, 0);
    for (uint32_t i = 0; i < plan->n_weights; i++) {
        assert_int_equal(device.n_commits[i], 1);
        assert_int_equal(count_wrong(&plan->weights[i], device.data[i]), 0);
        free(device.data[i]);
    }
    assert_int_equal(atomic_load(&load->n_committed), plan->n_weights);
    halo_mailbox_finish(&port);
    halo_model_destroy(instance->model);
    free(device.data);
    free(device.n_commits);
    free(instance);
    free(load);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_have_their_bytes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
