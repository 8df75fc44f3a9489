/* test_turns.c: models that take turns in memory: what was cached of one that goes is there when it comes again. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <engine/prefix_image.h>

#include "child.h"

#define N_PROMPT 70
#define N_REPLY 20
#define N_PAGES 3 /* of the 89 positions that are filled: two whole ones and a rest */
#define SMALL ",\"kv_tokens\":512"

static char dir[] = "/tmp/halo-test-turns-XXXXXX";
static char prompt[4096];
static int64_t next_id;
static uint64_t limit_bytes; /* of the next child's device; 0: plenty */

static void limit(struct fake_control *control)
{
    control->free_bytes = limit_bytes == 0 ? 0 : limit_bytes / 15 * 16 + 64; /* a sixteenth is the machine's */
}

static void begin(struct child *c, uint64_t room_bytes)
{
    limit_bytes = room_bytes;
    next_id = 0;
    child_start(c, true, limit);
}

#define N_MODELS 3

/* m0.gguf to m2.gguf: one model under names of its own, so three. */
static void make_models(void)
{
    char path[4096];
    size_t n;
    const char *root = getenv("HALO_SOURCE_ROOT");
    snprintf(path, sizeof(path), "%s/tests/models/fable-Q4_K_M.gguf", root ? root : ".");
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *bytes = malloc(16u << 20);
    n = fread(bytes, 1, 16u << 20, file);
    fclose(file);
    char *name = memmem(bytes, n, "general.name", 12);
    assert_non_null(name);
    name += 12 + 4 + 8; /* key, type, length */
    for (int i = 0; i < N_MODELS; i++) {
        name[0] = (char)('a' + i);
        snprintf(path, sizeof(path), "%s/m%d.gguf", dir, i);
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, n, file), n);
        fclose(file);
    }
    free(bytes);
}

static struct child_request *load(struct child *c, int model, const char *more)
{
    child_send(c, "{\"type\":\"load\",\"id\":%lld,\"model\":\"%s/m%d.gguf\",\"params\":{\"context\":512%s}}",
               (long long)++next_id, dir, model, more);
    struct child_request *request = child_wait(c, next_id);
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("%s", request->last);
    return request;
}

static struct child_request *talk(struct child *c, int model)
{
    child_send(c,
               "{\"type\":\"generate\",\"id\":%lld,\"model\":\"m%d\",\"tokens\":[%s],\"max_tokens\":20,"
               "\"ignore_eos\":true,\"seed\":7,\"emit_token_ids\":true,\"user\":5}",
               (long long)++next_id, model, prompt);
    struct child_request *request = child_wait(c, next_id);
    assert_int_equal(request->n_ids, N_REPLY);
    return request;
}

static struct child_request *unload(struct child *c, int model)
{
    child_send(c, "{\"type\":\"unload\",\"id\":%lld,\"model\":\"m%d\"}", (long long)++next_id, model);
    struct child_request *request = child_wait(c, next_id);
    assert_int_equal(request->terminal, HALO_EV_UNLOADED);
    return request;
}

static uint64_t memory_of_one(void)
{
    struct child c;
    begin(&c, 0);
    load(&c, 0, SMALL);
    child_send(&c, "{\"type\":\"status\",\"id\":%lld}", (long long)++next_id);
    long bytes = child_number(child_wait(&c, next_id), "memory_bytes");
    assert_int_equal(child_end(&c), 0);
    assert_true(bytes > 1000000);
    return (uint64_t)bytes;
}

static int n_files(void)
{
    char folder[128];
    int n = 0;
    snprintf(folder, sizeof(folder), "%s/prefixes", dir);
    DIR *stream = opendir(folder);
    for (struct dirent *entry; stream && (entry = readdir(stream));)
        n += entry->d_name[0] != '.';
    if (stream)
        closedir(stream);
    return n;
}

/* There is room for one: the second turn of each conversation finds what the first one left. */
static void take_turns(uint64_t room_bytes)
{
    struct child c;
    int32_t first[N_REPLY];
    begin(&c, room_bytes);
    load(&c, 0, SMALL);
    memcpy(first, talk(&c, 0)->ids, sizeof(first));
    for (int turn = 1; turn < 6; turn++) {
        int model = turn % 2;
        struct child_request *loaded = load(&c, model, SMALL);
        assert_non_null(strstr(loaded->notice, "model_evicted"));
        assert_int_equal(child_number(loaded, "prefix_pages"), turn > 1 ? N_PAGES : 0);
        assert_non_null(strstr(c.last_unaddressed, "\"reason\":\"room\",\"prefix_pages\":3"));
        assert_int_equal(n_files(), 1); /* of the one that went */
        struct child_request *reply = talk(&c, model);
        assert_int_equal(child_number(reply, "cached_tokens"), turn > 1 ? N_PROMPT - 1 : 0);
        assert_memory_equal(reply->ids, first, sizeof(first));
    }
    assert_int_equal(child_end(&c), 0);
    begin(&c, room_bytes); /* what was saved of the model that went outlives the engine */
    assert_int_equal(child_number(load(&c, 0, SMALL), "prefix_pages"), N_PAGES);
    assert_int_equal(child_number(talk(&c, 0), "cached_tokens"), N_PROMPT - 1);
    assert_int_equal(child_end(&c), 0);
    assert_int_equal(n_files(), 0);
}

static void two_models_take_turns(void **state)
{
    struct halo_prefix_key key = {.n_groups = 1, .page_bytes = {32 * sizeof(int32_t)}}; /* of the scripted device */
    uint64_t room_bytes = memory_of_one() * 3 / 2;
    take_turns(room_bytes);
    /* And where the folder has room for one file, the one that comes is not pushed out by the one that goes. */
    child_save_bytes = HALO_PREFIX_HEADER_BYTES + N_PAGES * halo_prefix_record_bytes(&key, 1);
    take_turns(room_bytes);
    child_save_bytes = 64u << 20;
}

/* A model that is in use was used last, whenever its last request ended. */
static void a_busy_model_is_saved_first(void **state)
{
    struct halo_prefix_key key = {.n_groups = 1, .page_bytes = {32 * sizeof(int32_t)}};
    struct child c;
    child_save_bytes = HALO_PREFIX_HEADER_BYTES + N_PAGES * halo_prefix_record_bytes(&key, 1);
    begin(&c, 0);
    for (int i = 0; i < 2; i++)
        load(&c, i, SMALL);
    for (int i = 0; i < 2; i++)
        talk(&c, i);
    c.control->run_us = 20000; /* it lasts */
    child_send(&c, "{\"type\":\"generate\",\"id\":100,\"model\":\"m0\",\"tokens\":[%s],\"ignore_eos\":true,\"user\":5}",
               prompt);
    while (c.requests[100].n_started == 0)
        child_read(&c, 100);
    child_send(&c, "{\"type\":\"pause\",\"target\":100}");
    child_send(&c, "{\"type\":\"save\",\"id\":101,\"deadline_ms\":30000}");
    assert_int_equal(child_number(child_wait(&c, 101), "models"), 1);
    assert_int_equal(child_end(&c), 0);
    begin(&c, 0);
    assert_int_equal(child_number(load(&c, 1, SMALL), "prefix_pages"), 0);
    assert_int_equal(child_number(load(&c, 0, SMALL), "prefix_pages"), N_PAGES);
    assert_int_equal(child_end(&c), 0);
    child_save_bytes = 64u << 20;
}

static void two_go_for_a_large_one(void **state)
{
    struct child c;
    uint64_t one_bytes = memory_of_one();
    char pool[64];
    snprintf(pool, sizeof(pool), ",\"kv_tokens\":%llu",
             (unsigned long long)(one_bytes / 4096 * 5 / 4)); /* 4 KiB each */
    begin(&c, one_bytes * 5 / 2);
    for (int i = 0; i < 2; i++) {
        load(&c, i, SMALL);
        talk(&c, i);
    }
    assert_int_equal(load(&c, 2, pool)->n_notices, 2);
    assert_int_equal(n_files(), 2);
    unload(&c, 2);
    for (int i = 0; i < 2; i++)
        assert_int_equal(child_number(load(&c, i, SMALL), "prefix_pages"), N_PAGES);
    assert_int_equal(child_end(&c), 0);
    assert_int_equal(n_files(), 0);
}

static void a_model_that_is_unloaded(void **state)
{
    struct child c;
    begin(&c, 0);
    load(&c, 0, "");
    talk(&c, 0);
    assert_int_equal(child_number(unload(&c, 0), "prefix_pages"), N_PAGES);
    assert_int_equal(child_number(load(&c, 0, ",\"keep_alive_s\":1"), "prefix_pages"), N_PAGES);
    for (int i = 0; i < 100 && c.n_unaddressed == 0; i++) /* its time is over */
        child_read(&c, 100);
    assert_non_null(strstr(c.last_unaddressed, "\"reason\":\"idle\",\"prefix_pages\":3"));
    load(&c, 0, "");
    child_send(&c, "{\"type\":\"reset\",\"id\":%lld,\"model\":\"m0\"}", (long long)++next_id);
    assert_int_equal(child_number(child_wait(&c, next_id), "freed_pages"), N_PAGES);
    assert_int_equal(child_number(unload(&c, 0), "prefix_pages"), 0); /* what was forgotten stays forgotten */
    assert_int_equal(n_files(), 0);
    load(&c, 0, "");
    assert_int_equal(child_number(talk(&c, 0), "cached_tokens"), 0);
    c.control->copy_error = -22;
    assert_non_null(strstr(unload(&c, 0)->last, "\"prefixes_not_saved\":\"a page could not be read"));
    assert_int_equal(n_files(), 0);
    assert_int_equal(child_end(&c), 0);
    child_save_ms = 0;
    begin(&c, 0);
    load(&c, 0, "");
    talk(&c, 0);
    assert_int_equal(child_number(unload(&c, 0), "prefix_pages"), 0);
    assert_int_equal(n_files(), 0);
    assert_int_equal(child_end(&c), 0);
    child_save_ms = 20000;
}

/* Whoever waits for the load that pushes a model out hears that its prefixes are lost. */
static void one_that_goes_and_cannot_be_saved(void **state)
{
    struct child c;
    begin(&c, memory_of_one() * 3 / 2);
    load(&c, 0, SMALL);
    talk(&c, 0);
    c.control->copy_error = -22;
    struct child_request *loaded = load(&c, 1, SMALL);
    assert_int_equal(loaded->n_notices, 2);
    assert_non_null(strstr(loaded->notice, "\"prefixes_not_saved\",\"message\":\"prefixes of m0 are not saved: a "));
    assert_non_null(strstr(c.last_unaddressed, "\"prefixes_not_saved\":\"a page could not be read"));
    assert_int_equal(n_files(), 0);
    assert_int_equal(child_end(&c), 0);
}

static int start(void **state)
{
    child_prompt(prompt, N_PROMPT);
    if (!mkdtemp(dir))
        return 1;
    child_state_dir = dir;
    make_models();
    return 0;
}

static int finish(void **state)
{
    return child_remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_models_take_turns),
        cmocka_unit_test(a_busy_model_is_saved_first),
        cmocka_unit_test(two_go_for_a_large_one),
        cmocka_unit_test(a_model_that_is_unloaded),
        cmocka_unit_test(one_that_goes_and_cannot_be_saved),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
