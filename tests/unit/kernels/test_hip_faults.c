/* test_hip_faults.c: the HIP device's errors when its runtime fails: hangs, errors, no memory, a lost GPU, at the n-th
 * call of a function.
 *
 * Needs the emulated runtime ($HALO_HIP_LIB) and its fault scripts. Each case is a process of its own: a lost
 * completion cannot be undone.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <hip/hip.h>

#include "cpu_fixture.h"

#define N_VOCAB 64
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HANG_MS "8000" /* an emulated kernel takes its time there */
#else
#define HANG_MS "2000"
#endif
#define SLOW_MS "60000" /* where the machine took that time to come to the hang */

/* A small whole model: tables, a norm, a product, a head. */
static void build(struct fixture *f)
{
    fixture_init(f, N_VOCAB, 4, 64);
    f->device_ops = halo_device_hip();
    uint16_t x = fixture_input(f, 256, 1), out = fixture_value(f, 256), y = fixture_value(f, 256);
    uint32_t norm = fixture_weight(f, HALO_TYPE_F32, HALO_WEIGHT_VECTOR, 256, 1, 1, 1);
    uint32_t weight = fixture_weight(f, HALO_TYPE_Q4_K, HALO_WEIGHT_MATRIX, 256, 256, 1, 1);
    uint32_t head = fixture_weight(f, HALO_TYPE_Q6_K, HALO_WEIGHT_MATRIX, 256, N_VOCAB, 1, 1);
    fixture_rmsnorm(f, norm, x, HALO_NONE, out);
    fixture_op(f, (struct halo_op){.kind = HALO_OP_MATMUL, .u.matmul = {out, 1, {weight}, {HALO_WEIGHT_NONE}, {y}}});
    fixture_op(f, (struct halo_op){.kind = HALO_OP_LOGITS,
                                   .u.logits = {.weight = head, .x = y, .bias = HALO_WEIGHT_NONE, .scale = 1}});
}

static int load(struct fixture *f, char *reason)
{
    const struct halo_device_ops *ops = f->device_ops;
    int r = ops->model_create(f->device, &f->plan, &f->model, reason);
    for (uint32_t i = 0; i < f->plan.n_weights && !r; i++) {
        struct halo_device_slot slot;
        assert_int_equal(ops->weight_slot(f->model, i, &slot), 0);
        memcpy(slot.data, f->bytes[i], f->weights[i].n_bytes);
        r = ops->weight_commit(f->model, i, reason);
    }
    return r ? r : ops->model_seal(f->model, reason);
}

static int run_steps(struct fixture *f, uint32_t n, struct halo_device_phase *phase, char *reason)
{
    float *logits = aligned_alloc(64, N_VOCAB * sizeof(float));
    uint32_t page = 0, zero = 0;
    struct halo_batch_seq seq = {{&page}, 1};
    int r = 0;
    for (int32_t i = 0; i < (int32_t)n && !r; i++) {
        int32_t token = i;
        struct halo_batch batch = {.n_rows = 1,
                                   .token = &token,
                                   .pos = &i,
                                   .seq = &zero,
                                   .n_seqs = 1,
                                   .seqs = &seq,
                                   .n_outputs = 1,
                                   .output = &zero,
                                   .logits = logits};
        r = f->device_ops->run(f->model, &batch, phase, reason);
    }
    free(logits);
    return r;
}

struct fault {
    const char *what, *script;
    bool discrete;
    int error;         /* of the first call that fails */
    const char *says;  /* in its sentence */
    const char *phase; /* of the run; NULL: it never ran */
    bool lost;         /* everything fails with HALO_DEVICE_E_LOST afterwards */
};

static const struct fault faults[] = {
    {"no fault", "", false, 0, NULL, "waiting for the GPU", false},
    {"no fault, discrete", "", true, 0, NULL, "waiting for the GPU", false},
    {"hang in the upload", "hipMemcpyAsync:2:stall", true, -ETIME, "upload", NULL, true},
    {"hang in the first launch", "hipModuleLaunchKernel:1:stall", false, -ETIME, "first launch of embed_f32",
     "first launch of embed_f32", true},
    {"hang in a later first launch", "hipModuleLaunchKernel:3:stall", false, -ETIME, "first launch of gemv_q4_k_x1",
     "first launch of gemv_q4_k_x1", true},
    {"hang in a decode step", "hipGraphLaunch:1:stall", false, -ETIME, "a step of 1 rows", "waiting for the GPU", true},
    {"hang in a step that is launched", "hipStreamBeginCapture:*:error=801,hipModuleLaunchKernel:12:stall", false,
     -ETIME, "a step of 1 rows", "waiting for the GPU", true},
    {"no graphs", "hipStreamBeginCapture:*:error=801", false, 0, NULL, "waiting for the GPU", false},
    {"no memory for graphs", "hipGraphInstantiate:3:oom", true, 0, NULL, "waiting for the GPU", false},
    {"lost while recording", "hipStreamEndCapture:2:lost", false, HALO_DEVICE_E_LOST, "launch failed (719)", NULL,
     true},
    {"hang while memory is cleared", "hipMemsetAsync:1:stall", false, -ETIME, "clearing the KV cache", NULL, true},
    {"no memory for weights", "hipHostMalloc:1:oom", false, -ENOMEM, "weights", NULL, false},
    {"no memory for the cache", "hipMalloc:1:oom", false, -ENOMEM, "KV cache", NULL, false},
    {"no memory for activations", "hipMalloc:2:oom", false, -ENOMEM, "activations", NULL, false},
    {"no memory for the buffers", "hipHostMalloc:2:oom", true, -ENOMEM, "buffers of the upload", NULL, false},
    {"lost in the upload", "hipMemcpyAsync:1:lost", true, HALO_DEVICE_E_LOST, "launch failed (719)", NULL, true},
    {"lost at a launch", "hipModuleLaunchKernel:2:lost", false, HALO_DEVICE_E_LOST, "launch failed (719)",
     "first launch of rmsnorm", true},
    {"lost at a replay", "hipGraphLaunch:2:lost", false, HALO_DEVICE_E_LOST, "replaying a step", "replaying a step",
     true},
    {"illegal address while waiting", "hipEventQuery:*:error=700", false, HALO_DEVICE_E_LOST, "illegal address (700)",
     NULL, true},
};

static bool contains(const char *text, const char *part)
{
    return !part || strstr(text, part);
}

/* In the child: 0 when everything was as the case states. */
static int play(const struct fault *fault, const char *hang_ms)
{
    char reason[HALO_DEVICE_REASON] = "", again[HALO_DEVICE_REASON] = "";
    static struct fixture f;
    struct halo_device_phase phase = {0};
    const struct halo_device_options options = {.library = getenv("HALO_HIP_LIB")};
    build(&f);
    setenv("HALO_HIP_EMU_SCRIPT", fault->script, 1);
    setenv("HALO_HIP_EMU_DISCRETE", fault->discrete ? "1" : "0", 1);
    setenv("HALO_HIP_DEADLINE_MS", fault->error == -ETIME ? hang_ms : SLOW_MS, 1);
    int r = f.device_ops->open(&f.device, &options, reason);
    if (!r)
        r = load(&f, reason);
    if (!r)
        r = run_steps(&f, 3, &phase, reason);
    const char *what = atomic_load(&phase.what);
    if (r != fault->error || !contains(reason, fault->says) ||
        (fault->phase && (!what || strcmp(what, fault->phase) != 0))) {
        fprintf(stderr, "%s: error %d, wanted %d; \"%s\", wanted \"%s\"; phase \"%s\", wanted \"%s\"\n", fault->what, r,
                fault->error, reason, fault->says ? fault->says : "", what ? what : "none",
                fault->phase ? fault->phase : "any");
        return 1;
    }
    f.device_ops->model_destroy(f.model);
    f.model = NULL;
    r = f.device_ops->model_create(f.device, &f.plan, &f.model, again);
    f.model = r ? NULL : f.model;
    if (r != (fault->lost ? HALO_DEVICE_E_LOST : 0)) {
        fprintf(stderr, "%s: afterwards a model gives %d: %s\n", fault->what, r, again);
        return 1;
    }
    f.device_ops->model_destroy(f.model);
    f.model = NULL;
    /* After a failed allocation the model can be loaded and runs. */
    if (!fault->lost && (load(&f, again) || run_steps(&f, 2, &phase, again)))
        return 1;
    fixture_finish(&f);
    return 0;
}

static pid_t begin(const struct fault *fault, const char *hang_ms)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(300); /* a wait without a deadline ends the test */
        _exit(play(fault, hang_ms));
    }
    return child;
}

static bool ends_well(pid_t child)
{
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Those that hang wait together. */
static void faults_are_told_apart(void **state)
{
    enum { N = sizeof(faults) / sizeof(faults[0]) };
    pid_t hang[N] = {0};
    for (uint32_t i = 0; i < N; i++)
        if (faults[i].error == -ETIME)
            hang[i] = begin(&faults[i], HANG_MS);
    for (uint32_t i = 0; i < N; i++)
        if (!hang[i] && !ends_well(begin(&faults[i], SLOW_MS)))
            fail_msg("%s", faults[i].what);
    for (uint32_t i = 0; i < N; i++)
        if (hang[i] && !ends_well(hang[i]) && !ends_well(begin(&faults[i], SLOW_MS)))
            fail_msg("%s", faults[i].what);
}

/* A step without results, which is not waited for, never ends; then another model takes memory. In the child: 0 when
 * that failed at the deadline. The runtime aborts when it is asked for memory first: a real one would wait for ever. */
static int take_memory_behind_a_hang(const char *hang_ms)
{
    static struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    const struct halo_device_options options = {.library = getenv("HALO_HIP_LIB")};
    const uint32_t zero = 0;
    const struct halo_batch_seq seq = {{&zero}, 1};
    const struct halo_batch batch = {
        .n_rows = 1, .token = &(int32_t){3}, .pos = &(int32_t){2}, .seq = &zero, .n_seqs = 1, .seqs = &seq};
    struct halo_device_model *other = NULL;
    build(&f);
    setenv("HALO_HIP_EMU_IDLE", "1", 1);
    setenv("HALO_HIP_EMU_SCRIPT", "", 1);
    setenv("HALO_HIP_DEADLINE_MS", hang_ms, 1);
    int r = f.device_ops->open(&f.device, &options, reason);
    if (!r)
        r = load(&f, reason);
    if (!r)
        r = run_steps(&f, 2, NULL, reason);
    setenv("HALO_HIP_EMU_SCRIPT", "hipModuleLaunchKernel:*:stall,hipGraphLaunch:*:stall", 1);
    if (!r)
        r = f.device_ops->run(f.model, &batch, NULL, reason);
    if (r) {
        fprintf(stderr, "before the hang: %d: %s\n", r, reason);
        return 1;
    }
    r = f.device_ops->model_create(f.device, &f.plan, &other, reason);
    if (r == -ETIME && strstr(reason, "the work before memory is taken"))
        return 0;
    fprintf(stderr, "behind the hang: %d: %s\n", r, reason);
    return 1;
}

static void memory_is_not_taken_while_work_is_queued(void **state)
{
    const char *const waits[] = {HANG_MS, SLOW_MS};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            alarm(300);
            _exit(take_memory_behind_a_hang(waits[i]));
        }
        if (ends_well(child))
            return;
    }
    fail();
}

/* Four steps of one row, logits of the last; `ret_info` tells how the device ran them. */
static void last_logits(const char *script, float *ret, struct halo_device_info *ret_info)
{
    static struct fixture f;
    char reason[HALO_DEVICE_REASON] = "";
    const uint32_t zero = 0;
    const struct halo_batch_seq seq = {{&zero}, 1};
    const struct halo_device_options options = {.library = getenv("HALO_HIP_LIB")};
    setenv("HALO_HIP_EMU_SCRIPT", script, 1);
    build(&f);
    if (f.device_ops->open(&f.device, &options, reason) || load(&f, reason))
        fail_msg("%s", reason);
    for (int32_t i = 0; i < 4; i++) {
        struct halo_batch batch = {1, &i, &i, &zero, 1, &seq, 1, &zero, ret};
        if (f.device_ops->run(f.model, &batch, NULL, reason))
            fail_msg("%s", reason);
    }
    f.device_ops->describe(f.device, ret_info);
    fixture_finish(&f);
}

static void a_replayed_step_is_the_launched_one(void **state)
{
    struct halo_device_info info;
    float *replayed = aligned_alloc(64, N_VOCAB * sizeof(float));
    float *launched = aligned_alloc(64, N_VOCAB * sizeof(float));
    last_logits("", replayed, &info);
    assert_int_equal(info.n_notices, 0);
    assert_string_equal(info.notice, "");
    last_logits("hipStreamBeginCapture:*:error=801", launched, &info);
    assert_int_equal(info.n_notices, 1);
    assert_string_equal(info.notice, "decode steps are launched kernel by kernel: graphs cannot be recorded: not "
                                     "supported (801)");
    assert_memory_equal(replayed, launched, N_VOCAB * sizeof(float));
    assert_true(replayed[0] != replayed[1]);
    memset(launched, 0, N_VOCAB * sizeof(float));
    setenv("HALO_HIP_GRAPHS", "0", 1);
    last_logits("hipGraphLaunch:*:lost", launched, &info);
    unsetenv("HALO_HIP_GRAPHS");
    assert_int_equal(info.n_notices, 1);
    assert_string_equal(info.notice, "decode steps are launched kernel by kernel: HALO_HIP_GRAPHS=0");
    assert_memory_equal(replayed, launched, N_VOCAB * sizeof(float));
    free(replayed);
    free(launched);
}

/* The messages when there is no GPU to run on. */
static void refusals_name_what_is_missing(void **state)
{
    char reason[HALO_DEVICE_REASON] = "";
    const struct halo_device_ops *ops = halo_device_hip();
    struct halo_device_options options = {.library = "/nonexistent/libamdhip64.so"};
    assert_int_equal(ops->probe(&options, reason), -ENOENT);
    assert_non_null(strstr(reason, "/nonexistent/libamdhip64.so"));
    options.library = "libm.so.6"; /* a library without a single one of the functions */
    assert_int_equal(ops->probe(&options, reason), -ENOTSUP);
    assert_non_null(strstr(reason, "hipInit"));
    assert_non_null(strstr(reason, "hipMalloc"));
    options.library = getenv("HALO_HIP_LIB");
    setenv("HALO_KERNEL_DIR", "/nonexistent", 1);
    assert_int_equal(ops->probe(&options, reason), -ENOTSUP);
    assert_non_null(strstr(reason, "kernels.host"));
}

/* A kernel file with one byte changed is refused. */
static void a_changed_kernel_file_is_refused(void **state)
{
    char dir[] = "/tmp/halo-kernels-XXXXXX", path[512], reason[HALO_DEVICE_REASON] = "", command[1200];
    const char *from = getenv("HALO_KERNEL_DIR");
    const struct halo_device_options options = {.library = getenv("HALO_HIP_LIB")};
    assert_non_null(from);
    assert_non_null(mkdtemp(dir));
    snprintf(command, sizeof(command), "cp '%s/kernels.host' '%s/kernels.manifest' '%s'", from, from, dir);
    assert_int_equal(system(command), 0);
    setenv("HALO_KERNEL_DIR", dir, 1);
    assert_int_equal(halo_device_hip()->probe(&options, reason), 0);
    snprintf(path, sizeof(path), "%s/kernels.host", dir);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    fseek(file, 4096, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, 4096, SEEK_SET);
    fputc(byte ^ 1, file);
    fclose(file);
    assert_int_equal(halo_device_hip()->probe(&options, reason), -EBADMSG);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_are_told_apart),
        cmocka_unit_test(memory_is_not_taken_while_work_is_queued),
        cmocka_unit_test(a_replayed_step_is_the_launched_one),
        cmocka_unit_test(a_changed_kernel_file_is_refused),
        cmocka_unit_test(refusals_name_what_is_missing),
    };
    if (!getenv("HALO_HIP_LIB")) {
        printf("HALO_HIP_LIB names no runtime\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
