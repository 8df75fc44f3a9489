/* broken.h: limits of halod and of its engine, one of which is taken away in the programs halod_broken and
 * engine_broken: the one that $HALO_BROKEN names. The hostile neighbour has to notice each. */
#ifndef HALO_TEST_BROKEN_H
#define HALO_TEST_BROKEN_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* X(name, the pattern of test_neighbour.c that notices, what is taken away) */
#define BROKEN_LIST(X)                                                                                                 \
    X(connections, silent_connections, "connections are not limited")                                                  \
    X(shares, silent_connections, "one user may have all that there is for everybody")                                 \
    X(shed, all_connections_in_use, "silent connections make no room")                                                 \
    X(queued, long_requests, "requests in the queue are not limited")                                                  \
    X(lines, half_lines, "held request lines are not limited")                                                         \
    X(output, readers_that_never_read, "unread output is not limited")                                                 \
    X(turn_time, one_turn_of_the_loop, "lines of one user are handled as long as there are some")                      \
    X(turn_bytes, one_turn_of_the_loop, "all that one user has sent is read at once")                                  \
    X(fit, refused_texts, "a text that cannot fit is tokenized")                                                       \
    X(counted, refused_texts, "a text is tokenized to its end however many tokens it has")                             \
    X(text_turns, long_texts, "who has the text workers keeps them")                                                   \
    X(template_turns, long_templates, "who has the text workers keeps them")                                           \
    X(next_user, long_requests, "the oldest request is the next to run, whoever sent it")                              \
    X(slots, long_requests, "nobody makes room for a user who runs less")                                              \
    X(pages, few_pages, "nobody gives up KV pages for a user who runs less")                                           \
    X(prompt_rows, many_prompts, "users take no turns at the rows of prompts")                                         \
    X(bench_yields, long_bench, "a bench takes the device for many runs at a time")

enum broken {
    BROKEN_NOTHING,
#define X(name, pattern, what) BROKEN_##name,
    BROKEN_LIST(X)
#undef X
};

#define BROKEN_VARIABLE "HALO_BROKEN"

/* Whether this is the limit that is taken away. Any thread. */
static inline bool is_broken(enum broken which)
{
    static const char *const names[] = {"",
#define X(name, pattern, what) #name,
                                        BROKEN_LIST(X)
#undef X
    };
    const char *name = getenv(BROKEN_VARIABLE);
    return name && strcmp(name, names[which]) == 0;
}

/* A function in front of the real one. */
#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

#endif
