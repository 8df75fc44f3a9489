/* event.h: what happens in a simulated life: one list of kinds, drawn from a seed, written to and read from text.
 *
 * An event names its objects by numbers that are taken modulo what there is, so that a list with events left out still
 * means something: that is what the search for the shortest failing list needs. Pure.
 */
#ifndef HALO_TEST_SIM_EVENT_H
#define HALO_TEST_SIM_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name, how many in 1000, what a b c are */
#define SIM_EVENTS(X)                                                                                                  \
    X(pass, 150, "milliseconds, kind of pause")                                                                        \
    X(connect, 30, "slot, user")                                                                                       \
    X(leave, 8, "slot")                                                                                                \
    X(half, 4, "slot: it sends no more")                                                                               \
    X(ask, 170, "slot, what, how")                                                                                     \
    X(cancel, 25, "slot, which")                                                                                       \
    X(habit, 30, "slot, whether it reads")                                                                             \
    X(read, 24, "slot, bytes")                                                                                         \
    X(hear, 90, "the engine reads so many lines")                                                                      \
    X(step, 360, "which job says something")                                                                           \
    X(round, 50, "every job does")                                                                                     \
    X(die, 6, "the engine")                                                                                            \
    X(silent, 3, "the engine, for milliseconds")                                                                       \
    X(stuck, 2, "the engine's device, until it is killed")                                                             \
    X(mad, 3, "the engine says what it may not")                                                                       \
    X(late, 8, "the engine speaks of what is over")                                                                    \
    X(unload, 8, "the engine, by itself: model")                                                                       \
    X(swap, 3, "other files: model")                                                                                   \
    X(curse, 4, "the engine dies of it or not, fails at it or not: model, how")                                        \
    X(breaker, 20, "load of a client's while it is open")                                                              \
    X(calm, 2, "all ends well")

enum sim_kind {
#define X(name, weight, doc) SIM_##name,
    SIM_EVENTS(X)
#undef X
        SIM_N_KINDS
};

struct sim_event {
    enum sim_kind kind;
    uint32_t a, b, c;
};

struct sim_life {
    unsigned config; /* which settings */
    struct sim_event *events;
    size_t n;
};

/* `n` events drawn from a seed. -ENOMEM. */
int sim_life_draw(struct sim_life *ret_life, uint64_t seed, size_t n);
/* Lines "config N", "KIND A B C", comments after '#'. -EINVAL with the line's number, or the errno of opening it. */
int sim_life_read(struct sim_life *ret_life, const char *path, size_t *ret_line);
void sim_life_print(const struct sim_life *life);
void sim_life_finish(struct sim_life *life);

#endif
