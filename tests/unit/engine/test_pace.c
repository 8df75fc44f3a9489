/* test_pace.c: rows of prompts beside replies, from times that are made up: the share holds, the measure is renewed, a
 * prompt always gets on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include <engine/pace.h>

#define MS 1000000u

/* A device whose step takes so long. */
struct machine {
    double base_ns, decode_ns, row_ns;
};

static uint64_t step_of(const struct machine *m, uint32_t n_decodes, uint32_t n_rows)
{
    return (uint64_t)(m->base_ns + n_decodes * m->decode_ns + n_rows * m->row_ns);
}

static struct halo_pace_load load_of(uint32_t n_decodes)
{
    return (struct halo_pace_load){
        .n_decodes = n_decodes, .n_left = 256 - n_decodes, .any_cut = true, .n_prompts_of = 1};
}

static void a_step_is_never_longer_than_its_share(void **state)
{
    static const struct machine machines[] = {{20 * MS, 0.5 * MS, 2 * MS},
                                              {100 * MS, MS, 3 * MS},
                                              {5 * MS, 0.1 * MS, 0.05 * MS},
                                              {1.5 * MS, 0.1 * MS, 0.1 * MS}};
    for (int k = 0; k < 4; k++) {
        struct halo_pace pace;
        uint32_t n_pure = 0, n_rows_in_all = 0, n_longer = 0;
        assert_int_equal(halo_pace_init(&pace, 48), 0);
        for (int i = 0; i < 330; i++) {
            struct halo_pace_load load = load_of(8);
            uint32_t n_rows = halo_pace_rows(&pace, &load);
            uint64_t ns = step_of(&machines[k], 8, n_rows);
            assert_true(n_rows <= load.n_left);
            n_pure += n_rows == 0;
            n_rows_in_all += n_rows;
            if (i > 40) { /* a longer piece is tried once, in vain */
                n_longer += ns > 2.2 * step_of(&machines[k], 8, 0);
                assert_true(ns <= 3.2 * step_of(&machines[k], 8, 0));
                assert_true(n_rows == 0 || n_rows == load.n_left || ns >= 1.7 * step_of(&machines[k], 8, 0));
            }
            halo_pace_note(&pace, 8, n_rows, ns);
        }
        assert_true(n_longer <= 2);
        assert_in_range(n_pure, 330 / (HALO_PACE_MIXED + 1), 330 / (HALO_PACE_MIXED + 1) + 3); /* once in a while */
        assert_true(n_rows_in_all > 320 * 8);
        halo_pace_finish(&pace);
    }
}

/* When everything takes three times as long for good, so may the pieces, soon. */
static void a_slower_machine_is_noticed(void **state)
{
    struct machine m = {20 * MS, 0.5 * MS, MS};
    struct halo_pace pace;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    for (int i = 0; i < 200; i++) {
        struct halo_pace_load load = load_of(8);
        uint32_t n_rows = halo_pace_rows(&pace, &load);
        halo_pace_note(&pace, 8, n_rows, step_of(&m, 8, n_rows));
        if (i == 80)
            m = (struct machine){60 * MS, 1.5 * MS, 3 * MS};
    }
    assert_true(halo_pace_decode_ns(&pace, 8) > 0.65 * step_of(&m, 8, 0)); /* from a third of it */
    struct halo_pace_load load = load_of(8);
    pace.n_mixed = 0;
    assert_true(halo_pace_rows(&pace, &load) >= 12);
    halo_pace_finish(&pace);
}

/* Deep in a long prompt a row costs many times what the first ones did, and the replies grow too. */
static void the_share_holds_at_any_depth(void **state)
{
    struct machine m = {20 * MS, 0.5 * MS, 0.5 * MS};
    struct halo_pace pace;
    uint64_t n_rows_in_all = 0;
    int n_longer = 0;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    for (int i = 0; n_rows_in_all < 30000; i++) {
        struct halo_pace_load load = load_of(8);
        uint32_t n_rows = halo_pace_rows(&pace, &load);
        m.row_ns = 0.5 * MS * (1 + (double)n_rows_in_all / 2000); /* 16 times as much in the end */
        m.decode_ns = 0.5 * MS + i * 0.0005 * MS;
        uint64_t ns = step_of(&m, 8, n_rows);
        assert_true(i < 40 || ns <= 3.2 * step_of(&m, 8, 0));
        n_longer += i >= 40 && ns > 2.2 * step_of(&m, 8, 0);
        assert_true(n_longer <= 2 + i / 256);
        assert_true(i < 20000);
        n_rows_in_all += n_rows;
        halo_pace_note(&pace, 8, n_rows, ns);
    }
    halo_pace_finish(&pace);
}

/* A device that takes 4 ms for a row of a prompt beside replies and hardly more for a hundred: pieces are long and far
 * between, and replies are half as fast, not a quarter. When fewer replies cost nothing extra, every step has a piece.
 */
static void pieces_that_cost_much_however_few_are_far_between(void **state)
{
    const struct machine m = {0.5 * MS, 0.1 * MS, 0.05 * MS};
    const double fixed_ns = 4 * MS;
    struct halo_pace pace;
    double ns = 0, decode_ns = 0;
    uint64_t n_rows_in_all = 0;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    for (int i = 0; i < 600; i++) {
        struct halo_pace_load load = load_of(8);
        uint32_t n_rows = halo_pace_rows(&pace, &load);
        uint64_t step_ns = step_of(&m, 8, n_rows) + (n_rows > 0 ? (uint64_t)fixed_ns : 0);
        halo_pace_note(&pace, 8, n_rows, step_ns);
        if (i < 100)
            continue;
        assert_true(step_ns <= 10 * step_of(&m, 8, 0));
        ns += (double)step_ns;
        decode_ns += (double)step_of(&m, 8, 0);
        n_rows_in_all += n_rows;
    }
    assert_true(ns <= 2.2 * decode_ns);
    assert_true((double)n_rows_in_all * m.row_ns >= 0.2 * ns);
    uint32_t n_pure = 0;
    for (int i = 0; i < 99; i++) {
        struct halo_pace_load load = load_of(4);
        uint32_t n_rows = halo_pace_rows(&pace, &load);
        halo_pace_note(&pace, 4, n_rows, step_of(&m, 4, n_rows));
        n_pure += n_rows == 0;
    }
    assert_true(n_pure <= 4);
    halo_pace_finish(&pace);
}

/* A GPU whose steps vary by a few percent, a long prompt and a batch that would hold 2,048 of its rows: what a row adds
 * is hidden in what any number of rows does, and no piece is much longer than those before. */
static void a_piece_is_at_most_twice_as_long_as_those_before(void **state)
{
    const double decode_ns = 1.3 * MS, fixed_ns = 4.1 * MS, row_ns = 0.048 * MS;
    for (uint32_t seed = 1; seed <= 20; seed++) {
        struct halo_pace pace;
        uint32_t noise = seed, n_steps = 0, n_rows_in_all = 0, most_rows = 0;
        double ns = 0;
        assert_int_equal(halo_pace_init(&pace, 48), 0);
        for (; n_rows_in_all < 30000 && n_steps < 20000; n_steps++) {
            struct halo_pace_load load = {.n_decodes = 8, .n_left = 2040, .any_cut = true, .n_prompts_of = 1};
            uint32_t n_rows = halo_pace_rows(&pace, &load);
            noise = noise * 1664525 + 1013904223;
            double vary = 0.95 + 0.1 * (noise >> 16) / 65536;
            double step_ns = vary * (decode_ns + (n_rows > 0 ? fixed_ns + n_rows * row_ns : 0));
            assert_true(step_ns <= decode_ns + 1.1 * HALO_PACE_APART_NS);
            assert_true(n_rows <= 2 * most_rows || n_rows <= 8); /* 8: nothing is known yet */
            most_rows = n_rows > most_rows ? n_rows : most_rows;
            halo_pace_note(&pace, 8, n_rows, (uint64_t)step_ns);
            n_rows_in_all += n_rows;
            ns += step_ns;
        }
        assert_true(n_rows_in_all >= 30000);
        assert_true(ns <= 2.2 * n_steps * decode_ns);
        assert_true(ns <= 12000.0 * MS); /* 173 tok/s would be 173 s, all at once 1.6 */
        halo_pace_finish(&pace);
    }
}

/* Attention of one to three rows of a piece as for replies, of more by tiles that cost the same for 4 rows as for 64
 * (an H200 behind 24,000 positions): from two rows to four a step becomes four times as long, and a row of hundreds
 * costs a tenth of one of two. When the replies end one by one, the prompt gets on all the same. */
static void longer_pieces_are_found_behind_a_jump(void **state)
{
    const double decode_ns = 1.5 * MS;
    struct halo_pace pace;
    double ns = 0, all_decode_ns = 0;
    uint32_t n_rows_in_all = 0, n_steps = 0, n_long = 0;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    for (; n_rows_in_all < 30000 && n_steps < 20000; n_steps++) {
        struct halo_pace_load load = {.n_decodes = 8, .n_left = 2040, .any_cut = true, .n_prompts_of = 1};
        uint32_t n_rows = halo_pace_rows(&pace, &load);
        double added_ns = n_rows < 4 ? n_rows * 0.4 * MS : 14 * MS + n_rows * 0.025 * MS;
        halo_pace_note(&pace, 8, n_rows, (uint64_t)(decode_ns + added_ns));
        assert_true(added_ns <= 1.1 * HALO_PACE_APART_NS);
        n_rows_in_all += n_rows;
        n_long += added_ns > 10 * MS;
        ns += decode_ns + added_ns;
        all_decode_ns += decode_ns;
    }
    assert_true(n_rows_in_all >= 30000 && n_long > 0);
    assert_true(ns <= 2.2 * all_decode_ns); /* replies are half as fast */
    assert_true(ns <= 6000.0 * MS);         /* 5000 tok/s; three rows in each step would be 1100 */
    struct halo_pace_load load = {.n_decodes = 1, .n_left = 2040, .any_cut = true, .n_prompts_of = 1};
    halo_pace_note(&pace, 1, 0, MS);
    assert_true(halo_pace_rows(&pace, &load) > 0);
    halo_pace_finish(&pace);
}

static void a_number_of_replies_is_measured_before_it_is_judged(void **state)
{
    struct halo_pace pace;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    struct halo_pace_load load = load_of(3);
    assert_int_equal(halo_pace_rows(&pace, &load), 0);
    halo_pace_note(&pace, 3, 0, 30 * MS);
    assert_true(halo_pace_rows(&pace, &load) > 0);
    load = load_of(9);
    assert_int_equal(halo_pace_rows(&pace, &load), 0);
    assert_true(halo_pace_decode_ns(&pace, 9) == 30 * MS); /* the nearest, for others who ask */
    assert_true(halo_pace_decode_ns(&pace, 1) == 30 * MS);
    halo_pace_finish(&pace);
}

static void one_slow_step_does_not_open_the_gate(void **state)
{
    struct halo_pace pace;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    for (int i = 0; i < 20; i++)
        halo_pace_note(&pace, 8, 0, 20 * MS);
    halo_pace_note(&pace, 8, 0, 60 * MS);
    assert_true(halo_pace_decode_ns(&pace, 8) <= 22.5 * MS);
    halo_pace_note(&pace, 8, 0, 5000ull * MS);
    assert_true(halo_pace_decode_ns(&pace, 8) <= 26 * MS);
    halo_pace_note(&pace, 8, 0, 20 * MS);
    halo_pace_note(&pace, 8, 0, 20 * MS);
    assert_true(halo_pace_decode_ns(&pace, 8) <= 21.5 * MS);
    halo_pace_finish(&pace);
}

static void alone_a_piece_is_as_long_as_one_may_wait(void **state)
{
    struct halo_pace pace;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    struct halo_pace_load load = load_of(0);
    assert_int_equal(halo_pace_rows(&pace, &load), 64); /* nothing known */
    halo_pace_note(&pace, 0, 64, 64 * 2 * MS);
    assert_int_equal(halo_pace_rows(&pace, &load), 112); /* 250 ms in whole tiles */
    halo_pace_note(&pace, 0, 64, 64 * (uint64_t)80 * MS);
    assert_int_equal(halo_pace_rows(&pace, &load), 64);
    load.any_cut = false;
    assert_int_equal(halo_pace_rows(&pace, &load), 256);
    halo_pace_finish(&pace);
}

/* Where the cut matters: short until a chunk was measured, then as long as a newcomer may have to wait. */
static void a_long_chunk_is_as_long_as_one_may_wait(void **state)
{
    static const struct {
        double row_ns;
        uint32_t rows;
    } cases[] = {{0.1 * MS, 4096}, {0.3 * MS, 2048}, {0.7 * MS, 1024}, {2 * MS, 256}, {80 * MS, 256}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_pace pace;
        struct halo_pace_load load = {.n_left = 4096, .n_prompts_of = 1};
        assert_int_equal(halo_pace_init(&pace, 48), 0);
        halo_pace_note_chunk(&pace, 100, true, 0, (uint64_t)(100 * cases[i].row_ns)); /* too short to say anything */
        assert_int_equal(halo_pace_rows(&pace, &load), HALO_PACE_CHUNK);
        uint64_t now_ns = 1000ull * MS, took_ns = (uint64_t)(256 * cases[i].row_ns);
        halo_pace_note_chunk(&pace, 256, true, now_ns, now_ns + took_ns);
        assert_int_equal(halo_pace_rows(&pace, &load), cases[i].rows);
        load.n_left = 300; /* what the batch has room for is the most */
        assert_int_equal(halo_pace_rows(&pace, &load), 300);
        halo_pace_finish(&pace);
    }
}

/* A device that returns before a chunk has ended: none of it counts before it must have. */
static void queued_chunks_are_measured_when_they_end(void **state)
{
    const uint64_t chunk_ns = 256 * MS; /* 1 ms a row */
    struct halo_pace pace;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    uint64_t now_ns = 5000ull * MS;
    for (int i = 0; i < 2; i++, now_ns += MS) { /* two return at once */
        halo_pace_note_chunk(&pace, 256, false, now_ns, now_ns + MS);
        assert_int_equal(halo_pace_chunk(&pace, 4096), 256);
        assert_true(pace.chunk_row_ns <= 0 && pace.row_ns <= 0);
    }
    for (int i = 0; i < 5; i++, now_ns += chunk_ns) {
        halo_pace_note_chunk(&pace, 256, false, now_ns, now_ns + chunk_ns);
        assert_true(pace.chunk_row_ns >= 0.99 * MS && pace.chunk_row_ns <= 1.02 * MS);
        assert_true(pace.row_ns >= 0.99 * MS && pace.row_ns <= 1.02 * MS);
    }
    /* The last has an output: all that was queued has ended with it. */
    halo_pace_note_chunk(&pace, 256, true, now_ns, now_ns + 3 * chunk_ns);
    assert_true(pace.chunk_row_ns >= 0.99 * MS && pace.chunk_row_ns <= 1.02 * MS);
    /* A pause between two chunks is nobody's time. */
    now_ns += 3 * chunk_ns;
    halo_pace_note_chunk(&pace, 256, false, now_ns, now_ns + MS);
    now_ns += 60000ull * MS;
    halo_pace_note_chunk(&pace, 256, true, now_ns, now_ns + chunk_ns);
    assert_true(pace.chunk_row_ns >= 0.99 * MS && pace.chunk_row_ns <= 1.02 * MS);
    /* Nor are replies, whose step waits for all in front of it. */
    halo_pace_note_chunk(&pace, 256, false, now_ns + chunk_ns, now_ns + chunk_ns + MS);
    halo_pace_note(&pace, 4, 0, 20 * MS);
    assert_int_equal(pace.queue.n, 0);
    halo_pace_finish(&pace);
}

static void replies_on_another_model_count(void **state)
{
    struct halo_pace pace;
    assert_int_equal(halo_pace_init(&pace, 48), 0);
    halo_pace_note(&pace, 0, 64, 64 * MS);
    struct halo_pace_load load = load_of(0);
    load.others_ns = 40 * MS;
    uint32_t n_rows = halo_pace_rows(&pace, &load);
    assert_true(n_rows > 20 && n_rows <= 40);
    load.n_prompts_of = 2; /* and another model has prompts too */
    assert_true(halo_pace_rows(&pace, &load) <= 20);
    load.others_ns = 0.01 * MS;
    assert_int_equal(halo_pace_rows(&pace, &load), 1); /* it gets on all the same */
    halo_pace_finish(&pace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_is_never_longer_than_its_share),
        cmocka_unit_test(a_slower_machine_is_noticed),
        cmocka_unit_test(the_share_holds_at_any_depth),
        cmocka_unit_test(pieces_that_cost_much_however_few_are_far_between),
        cmocka_unit_test(a_piece_is_at_most_twice_as_long_as_those_before),
        cmocka_unit_test(longer_pieces_are_found_behind_a_jump),
        cmocka_unit_test(a_number_of_replies_is_measured_before_it_is_judged),
        cmocka_unit_test(one_slow_step_does_not_open_the_gate),
        cmocka_unit_test(alone_a_piece_is_as_long_as_one_may_wait),
        cmocka_unit_test(a_long_chunk_is_as_long_as_one_may_wait),
        cmocka_unit_test(queued_chunks_are_measured_when_they_end),
        cmocka_unit_test(replies_on_another_model_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
