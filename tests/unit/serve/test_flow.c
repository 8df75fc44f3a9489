/* test_flow.c: a connection's states against its output, its input, its requests and time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <protocol/limits.h>

#include "flow_priv.h"

#define MS 1000000ull

static const struct halo_config config = {.output_high_bytes = 1000, .output_low_bytes = 100, .stall_ms = 50};

static void by_output(void **state)
{
    static const int64_t most = 1000 * 64 + HALO_LIMIT_ANSWER_BYTES;
    const struct {
        enum halo_peer_state state;
        bool doomed;
        int64_t bytes;
        size_t n_open;
        enum halo_flow_step step;
    } cases[] = {
        {HALO_PEER_OPEN, false, 0, 0, HALO_FLOW_STAYS},
        {HALO_PEER_OPEN, false, 1000, 1, HALO_FLOW_STAYS},
        {HALO_PEER_OPEN, false, 1001, 1, HALO_FLOW_SLOW},
        {HALO_PEER_OPEN, false, most, 1, HALO_FLOW_SLOW},
        {HALO_PEER_OPEN, false, most + 1, 1, HALO_FLOW_OVERFLOW},
        {HALO_PEER_OPEN, true, 1, 0, HALO_FLOW_STAYS},
        {HALO_PEER_OPEN, true, 0, 3, HALO_FLOW_CLOSE},
        {HALO_PEER_SLOW, false, 101, 1, HALO_FLOW_STAYS},
        {HALO_PEER_SLOW, false, 100, 1, HALO_FLOW_QUICK},
        {HALO_PEER_SLOW, false, most + 1, 1, HALO_FLOW_OVERFLOW},
        {HALO_PEER_SLOW, true, 0, 0, HALO_FLOW_QUICK}, /* first one, then the other */
        {HALO_PEER_HALF, false, 0, 1, HALO_FLOW_STAYS},
        {HALO_PEER_HALF, false, 1, 0, HALO_FLOW_STAYS},
        {HALO_PEER_HALF, false, 0, 0, HALO_FLOW_CLOSE},
        {HALO_PEER_HALF, false, 1001, 1, HALO_FLOW_SLOW},
        {HALO_PEER_CLOSED, true, most + 1, 0, HALO_FLOW_STAYS},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct halo_flow flow = {.state = cases[i].state, .doomed = cases[i].doomed};
        if (halo_flow_output(&flow, &config, cases[i].bytes, cases[i].n_open) != cases[i].step)
            fail_msg("case %zu", i);
    }
}

static void by_time(void **state)
{
    for (int s = 0; s < HALO_N_PEER_STATES; s++)
        for (int bits = 0; bits < 8; bits++) {
            bool doomed = bits & 1, stalled = bits & 2, overdue = bits & 4;
            struct halo_flow flow = {
                .state = (enum halo_peer_state)s, .doomed = doomed, .stalled = stalled, .since_ns = 7};
            enum halo_flow_step wanted = !overdue              ? HALO_FLOW_STAYS
                                         : doomed              ? HALO_FLOW_CLOSE
                                         : s != HALO_PEER_SLOW ? HALO_FLOW_STAYS
                                         : stalled             ? HALO_FLOW_GIVE_UP
                                                               : HALO_FLOW_STALLED;
            assert_int_equal(halo_flow_time(&flow, &config, 7 + 50 * MS - (overdue ? 0 : 1)), wanted);
        }
}

static void moves(void **state)
{
    struct halo_flow flow = {.state = HALO_PEER_OPEN};
    halo_flow_move(&flow, HALO_PEER_SLOW);
    halo_flow_move(&flow, HALO_PEER_HALF);
    halo_flow_move(&flow, HALO_PEER_CLOSED);
    assert_int_equal(flow.state, HALO_PEER_CLOSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(by_output), cmocka_unit_test(by_time), cmocka_unit_test(moves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
