/* test_load.c: every weight gets the bytes of its tensor, those of experts that lie apart in the file included, and is
 * committed once, when all of them are there; also where the device has memory for a few of them at a time. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
    uint32_t n_wrong;     /* committed before its bytes were there, or asked for out of order */
    uint64_t most;        /* bytes of slots at a time; 0: no limit */
    pthread_mutex_t lock; /* of what follows: the reader asks, the finisher commits */
    uint64_t taken, peak; /* bytes of slots that are in use */
    bool *has_slot;       /* of each weight */
    uint64_t asked_last;  /* file offset */
    uint32_t n_refused;
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

static int slot(struct halo_device_model *model, uint32_t index, struct halo_device_slot *ret)
{
    const struct halo_weight *weight = &model->plan->weights[index];
    pthread_mutex_lock(&model->lock);
    bool given = model->has_slot[index] || model->most == 0 || model->taken == 0 ||
                 model->taken + weight->n_bytes <= model->most;
    model->n_refused += !given;
    if (given && !model->has_slot[index]) {
        model->n_wrong += weight->offset < model->asked_last;
        model->asked_last = weight->offset;
        model->has_slot[index] = true;
        model->taken += weight->n_bytes;
        model->peak = model->taken > model->peak ? model->taken : model->peak;
    }
    if (given)
        *ret = (struct halo_device_slot){.data = model->data[index]};
    pthread_mutex_unlock(&model->lock);
    return given ? 0 : -EAGAIN;
}

static int commit(struct halo_device_model *model, uint32_t index, char *reason)
{
    (void)reason;
    bool wrong = count_wrong(&model->plan->weights[index], model->data[index]) > 0;
    pthread_mutex_lock(&model->lock);
    model->n_commits[index]++;
    model->n_wrong += wrong || !model->has_slot[index];
    model->has_slot[index] = false;
    model->taken -= model->plan->weights[index].n_bytes;
    pthread_mutex_unlock(&model->lock);
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

/* most: of the device above. */
static void load_all(uint64_t most, struct halo_device_model *ret)
{
    char path[] = "/tmp/halo-test-load-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && close(fd) == 0);
    struct halo_instance *instance = calloc(1, sizeof(*instance));
    struct halo_load *load = calloc(1, sizeof(*load));
    struct halo_mailbox port;
    assert_true(instance && load);
    instance->model = model_make(path);
    const struct halo_plan *plan = &instance->model->plan;
    struct halo_device_model device = {.plan = plan,
                                       .data = calloc(plan->n_weights, sizeof(*device.data)),
                                       .n_commits = calloc(plan->n_weights, sizeof(*device.n_commits)),
                                       .has_slot = calloc(plan->n_weights, sizeof(*device.has_slot)),
                                       .most = most,
                                       .lock = PTHREAD_MUTEX_INITIALIZER};
    uint32_t n_apart = 0;
    assert_true(device.data && device.n_commits && device.has_slot);
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
    assert_int_equal(device.taken, 0);
    *ret = device;
    halo_mailbox_finish(&port);
    halo_model_destroy(instance->model);
    free(device.data);
    free(device.n_commits);
    free(device.has_slot);
    free(instance);
    free(load);
    unlink(path);
}

static void weights_have_their_bytes(void **state)
{
    struct halo_device_model device;
    (void)state;
    load_all(0, &device);
    assert_int_equal(device.n_refused, 0);
}

/* As little as the fused experts take together: the reader waits for commits, and never holds more. */
static void slots_are_bounded(void **state)
{
    const uint64_t most = 2 * 4 * 64 * 32 * 2; /* of two weights [4][64][32] of F16 */
    struct halo_device_model device;
    (void)state;
    load_all(most, &device);
    assert_true(device.n_refused > 0);
    assert_true(device.peak <= most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_have_their_bytes), cmocka_unit_test(slots_are_bounded)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
