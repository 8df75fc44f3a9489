/* test_keep_groups.c: saved prefixes of a model with windows and states: what goes into a file, and that texts are
 * continued from it as if nothing had happened. The fake device aborts when a row finds another window or another
 * state than that of its text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <engine/keep.h>

#include "rig.h"

#define REPLY 20
#define WINDOW 40

struct file {
    uint8_t *bytes;
    uint64_t n;
    uint32_t n_records;
};

enum { WINDOWS = 1, STATES = 2, LATENT = 4 };

static void begin(struct rig *rig, uint32_t n_pages, int kinds)
{
    struct halo_plan plan;
    fake_plan(&plan, RIG_VOCAB, 4096, 100, 16, n_pages);
    plan.kv[0].latent = kinds & LATENT;
    if (kinds & WINDOWS)
        fake_plan_window(&plan, WINDOW, 0);
    if (kinds & STATES)
        fake_plan_states(&plan, 8);
    rig_init_plan(rig, &plan);
}

static void make_key(const struct rig *rig, struct halo_prefix_key *ret)
{
    uint64_t bytes[HALO_KV_GROUPS_MAX] = {0};
    for (uint32_t group = 0; group < rig->plan.n_kv_groups; group++)
        bytes[group] = fake_device()->kv_page_bytes(rig->model, group);
    halo_prefix_key_of(&rig->plan, "f", "s", "fake", bytes, ret);
}

/* As the device thread and the io thread do. */
static void save(struct rig *rig, uint64_t most_bytes, struct file *ret)
{
    static struct halo_instance instance;
    struct halo_save out = {.instance = &instance, .most_bytes = most_bytes, .deadline_ns = UINT64_MAX};
    uint8_t header[HALO_PREFIX_HEADER_BYTES];
    instance.device_model = rig->model;
    instance.scheduler = rig->scheduler;
    make_key(rig, &out.key);
    assert_int_equal(halo_save_begin(&out), 0);
    *ret = (struct file){.bytes = malloc(1 << 20), .n = HALO_PREFIX_HEADER_BYTES};
    assert_non_null(ret->bytes);
    while (!out.over) {
        uint64_t at = 0;
        assert_int_equal(halo_save_fill(&out, fake_device()), 0);
        for (uint32_t i = 0; i < out.n_chunk; i++)
            at += halo_prefix_record_seal(out.chunk + at, &out.key);
        assert_true(at == out.chunk_used && ret->n + at <= 1 << 20);
        memcpy(ret->bytes + ret->n, out.chunk, at);
        ret->n += at;
    }
    assert_true(ret->n == out.file_bytes && ret->n <= most_bytes);
    halo_prefix_header_seal(header, &out.key, out.save_id, out.n_done, out.file_bytes);
    memcpy(ret->bytes, header, sizeof(header));
    ret->n_records = out.n_done;
    halo_save_end(&out);
    rig->scheduler = instance.scheduler; /* lent */
}

/* Returns how many pages came back. */
static uint32_t restore(struct rig *rig, struct file *file)
{
    static struct halo_instance instance;
    struct halo_prefix_key key;
    struct halo_fault fault = {0};
    uint32_t n_records, n_pages;
    instance.device_model = rig->model;
    instance.scheduler = rig->scheduler;
    make_key(rig, &key);
    if (halo_prefix_image_check(file->bytes, file->n, &key, &n_records, &fault) < 0)
        fail_msg("%s", fault.text);
    assert_int_equal(n_records, file->n_records);
    assert_int_equal(halo_keep_restore(&instance, fake_device(), &key, file->bytes, n_records, &n_pages, &fault), 0);
    rig->scheduler = instance.scheduler;
    free(file->bytes);
    return n_pages;
}

/* How many records of a file hold something of a group. */
static uint32_t count_group(struct rig *rig, const struct file *file, uint32_t group)
{
    struct halo_prefix_key key;
    struct halo_prefix_record record;
    uint32_t n = 0;
    make_key(rig, &key);
    for (uint64_t at = HALO_PREFIX_HEADER_BYTES; at < file->n;) {
        at = halo_prefix_image_next(file->bytes, &key, at, &record);
        n += record.pages[group] != NULL;
    }
    return n;
}

/* Runs a text alone; returns how many of its positions were not computed. The reply is behind the text then. */
static uint32_t run_text(struct rig *rig, int32_t *ids, uint32_t n, uint32_t n_stable)
{
    struct halo_sequence_setup setup = rig_setup(rig, 1, 1, REPLY);
    setup.ids = ids;
    setup.n_prompt = n;
    setup.n_stable = n_stable;
    struct rig_seq *seq = rig_submit(rig, &setup);
    rig_run(rig);
    assert_int_equal(seq->n_ids, REPLY);
    memcpy(ids + n, seq->ids, REPLY * sizeof(*ids));
    return seq->n_cached;
}

static void make_text(struct rig *rig, uint32_t seed, int32_t *ids, uint32_t n)
{
    memcpy(ids, rig_setup(rig, seed, n, 1).ids, n * sizeof(*ids));
}

/* A conversation goes on behind its reply, and behind what its next turn repeats when the reply is another one. */
static void a_conversation_goes_on_from_a_file(void **state)
{
    static const int kinds[] = {0, LATENT, WINDOWS, STATES, WINDOWS | STATES, WINDOWS | LATENT};
    for (int cut = 0; cut < 2; cut++)
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            struct rig rig;
            struct file file;
            int32_t ids[512], want[REPLY];
            uint32_t n = 300 + REPLY + 30, known = cut ? 293 : 300 + REPLY - 1;
            begin(&rig, 600, kinds[i]);
            make_text(&rig, 5, ids, 300);
            assert_int_equal(run_text(&rig, ids, 300, 293), 0);
            save(&rig, UINT64_MAX, &file);
            make_text(&rig, 6, ids + 300 + REPLY, 30);
            if (cut)
                ids[293] = ids[293] == 2 ? 3 : 2;
            assert_int_equal(run_text(&rig, ids, n, 0), known);
            memcpy(want, ids + n, sizeof(want));
            rig_finish(&rig);

            begin(&rig, 600, kinds[i]);
            restore(&rig, &file);
            uint32_t n_rows = atomic_load(&rig.control.n_rows);
            assert_int_equal(run_text(&rig, ids, n, 0), known);
            assert_memory_equal(ids + n, want, sizeof(want));
            assert_int_equal(atomic_load(&rig.control.n_rows) - n_rows, n - known + REPLY - 1);
            rig_finish(&rig);
        }
}

/* Of windows the last pages, of states those of ends and of the stable place, not those of the grid. */
static void a_file_holds_what_a_text_is_continued_from(void **state)
{
    struct rig rig;
    struct file file;
    static int32_t ids[2400];
    begin(&rig, 600, WINDOWS | STATES);
    make_text(&rig, 5, ids, 2300);
    assert_int_equal(run_text(&rig, ids, 2300, 2290), 0);
    save(&rig, UINT64_MAX, &file);
    assert_int_equal(file.n_records, 2319 / HALO_KV_PAGE_TOKENS + 2); /* the rest of the text, and of its stable part */
    assert_int_equal(count_group(&rig, &file, 2), 2);
    /* Positions from 2304 - 40 and from 2272 - 40 on are seen from within the last pages. */
    assert_int_equal(count_group(&rig, &file, 1), 2 + 2304 / 32 - (2272 + 1 - WINDOW) / 32);
    free(file.bytes);
    rig_finish(&rig);
}

/* Where the file, or the pool, is too small for everything, what is there is still right. */
static void as_much_as_there_is_room_for(void **state)
{
    for (uint64_t most = HALO_PREFIX_HEADER_BYTES; most < 16000; most += 700) {
        struct rig rig;
        struct file file;
        int32_t ids[512], other[512], want[2][REPLY];
        begin(&rig, 600, WINDOWS | STATES);
        make_text(&rig, 5, ids, 300);
        make_text(&rig, 6, other, 100);
        run_text(&rig, ids, 300, 293);
        run_text(&rig, other, 100, 93);
        memcpy(want[0], ids + 300, sizeof(want[0]));
        memcpy(want[1], other + 100, sizeof(want[1]));
        save(&rig, most, &file);
        rig_finish(&rig);
        begin(&rig, most % 3 ? 150 : 12, WINDOWS | STATES);
        restore(&rig, &file);
        run_text(&rig, other, 100, 93);
        assert_memory_equal(other + 100, want[1], sizeof(want[1]));
        run_text(&rig, ids, 300, 293);
        assert_memory_equal(ids + 300, want[0], sizeof(want[0]));
        rig_finish(&rig);
    }
}

/* Of a model with states a text goes as a whole or not at all: the one used last first, then what else has room. */
static void no_text_without_its_states(void **state)
{
    static const struct {
        uint32_t n_long, n_short, n_pages; /* n_pages: that there is room for */
        bool has_long, has_short;
    } cases[] = {{300, 100, 20, true, true},
                 {300, 100, 13, true, false},
                 {300, 100, 9, false, true},
                 {300, 100, 3, false, false},
                 {100, 60, 8, true, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig rig;
        struct file file;
        struct halo_prefix_key key;
        int32_t ids[400], other[400];
        begin(&rig, 600, STATES);
        make_text(&rig, 5, ids, cases[i].n_long);
        make_text(&rig, 6, other, cases[i].n_short);
        run_text(&rig, other, cases[i].n_short, 0);
        run_text(&rig, ids, cases[i].n_long, 0); /* used last */
        make_key(&rig, &key);
        save(&rig, HALO_PREFIX_HEADER_BYTES + cases[i].n_pages * halo_prefix_record_bytes(&key, 1) + 40, &file);
        assert_int_equal(count_group(&rig, &file, 1), cases[i].has_long + cases[i].has_short);
        rig_finish(&rig);
        begin(&rig, 600, STATES);
        assert_int_equal(restore(&rig, &file), (cases[i].has_long ? (cases[i].n_long + REPLY - 1 + 31) / 32 : 0) +
                                                   (cases[i].has_short ? (cases[i].n_short + REPLY - 1 + 31) / 32 : 0));
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t n = k ? cases[i].n_short : cases[i].n_long;
            bool has = k ? cases[i].has_short : cases[i].has_long;
            assert_int_equal(run_text(&rig, k ? other : ids, n + REPLY, 0), has ? n + REPLY - 1 : 0);
        }
        rig_finish(&rig);
    }
}

/* A conversation is one after a restart too. */
static void worth_comes_back(void **state)
{
    struct rig rig;
    struct file file;
    int32_t ids[512];
    begin(&rig, 600, STATES);
    make_text(&rig, 5, ids, 100);
    run_text(&rig, ids, 100, 90);
    make_text(&rig, 6, ids + 120, 30);
    run_text(&rig, ids, 150, 140); /* those behind 90 are passed now */
    save(&rig, UINT64_MAX, &file);
    assert_int_equal(count_group(&rig, &file, 1), 3);
    rig_finish(&rig);
    begin(&rig, 600, STATES);
    restore(&rig, &file);
    assert_int_equal(rig.scheduler.pool.sides[0].idle[HALO_KV_RESUMED].n, 3);
    rig_finish(&rig);
}

/* A file is used for the same caches alone: every number of every group is in its key, and the largest ones fit. */
static void a_key_names_every_group(void **state)
{
    struct halo_plan plan;
    struct halo_prefix_key key, other;
    uint64_t bytes[HALO_KV_GROUPS_MAX];
    uint32_t n_seen = 0;
    fake_plan(&plan, 1 << 22, 1024, 64, 16, 600);
    for (plan.n_kv_groups = 1; plan.n_kv_groups < HALO_KV_GROUPS_MAX; plan.n_kv_groups++)
        plan.kv[plan.n_kv_groups] = (struct halo_kv_group){HALO_KV_F16, 512, 1024, 1024, 1024, 0, 1 << 30, 32, 0, true};
    plan.kv[HALO_KV_GROUPS_MAX - 1] = (struct halo_kv_group){.n_layers = 512, .state_width = 1u << 31};
    for (uint32_t group = 0; group < plan.n_kv_groups; group++)
        bytes[group] = 1ull << 32;
    const char *longest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    halo_prefix_key_of(&plan, longest, longest + 32, longest + 1, bytes, &key);
    for (uint32_t group = 0; group < plan.n_kv_groups; group++) {
        struct halo_kv_group was = plan.kv[group], changed[] = {was, was, was, was, was, was, was, was, was};
        changed[0].n_layers--;
        changed[1].type = HALO_KV_Q8;
        changed[2].n_head_kv--;
        changed[3].head_dim_k--;
        changed[4].head_dim_v--;
        changed[5].window++;
        changed[6].stride++;
        changed[7].latent = !was.latent;
        changed[8].state_width++;
        for (size_t i = 0; i < sizeof(changed) / sizeof(changed[0]); i++) {
            if (was.state_width > 0 && i > 0 && i < 8)
                continue; /* mean nothing there */
            plan.kv[group] = changed[i];
            halo_prefix_key_of(&plan, longest, longest + 32, longest + 1, bytes, &other);
            n_seen++;
            if (memcmp(key.text, other.text, sizeof(key.text)) == 0)
                fail_msg("change %zu of group %u has the same key", i, group);
        }
        plan.kv[group] = was;
        bytes[group]--;
        halo_prefix_key_of(&plan, longest, longest + 32, longest + 1, bytes, &other);
        assert_memory_not_equal(key.text, other.text, sizeof(key.text));
        bytes[group]++;
    }
    assert_int_equal(n_seen, 9 * (HALO_KV_GROUPS_MAX - 1) + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_conversation_goes_on_from_a_file),
        cmocka_unit_test(a_file_holds_what_a_text_is_continued_from),
        cmocka_unit_test(as_much_as_there_is_room_for),
        cmocka_unit_test(no_text_without_its_states),
        cmocka_unit_test(worth_comes_back),
        cmocka_unit_test(a_key_names_every_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
