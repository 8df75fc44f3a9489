/* world.h: the requests of halod between clients, an engine and a clock that a test moves by hand. No process, no
 * socket: what is written lies in buffers. For cmocka tests. */
#ifndef HALO_TEST_SERVE_WORLD_H
#define HALO_TEST_SERVE_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <serve/request/requests.h>

#define WORLD_CLIENTS 4
#define WORLD_MS 1000000ull

struct world {
    struct halo_config config;
    struct halo_quota quota;
    struct halo_counters counters;
    struct halo_requests requests;
    struct halo_client clients[WORLD_CLIENTS];
    struct halo_json outs[WORLD_CLIENTS], to_engine;
    uint64_t now_ns;
    struct halo_fault fault; /* of the last line of the engine that was refused */
    int64_t seed;            /* the next one drawn; -1: there is none */
    const char *note;        /* of the last death */
    char status[512];        /* told to the service manager last */
    unsigned n_starts;       /* how often the breaker asked for an engine */
};

/* Client i has user id 1000 + i, the daemon 999. */
void world_begin(struct world *world);
/* Closes every client, lets the engine die, and asserts that nothing is left. */
void world_end(struct world *world);

void world_say(struct world *world, int client, const char *line);
void world_close(struct world *world, int client);
/* The engine answers its hello; it dies, with `reason`. */
void world_engine_up(struct world *world);
void world_engine_dies(struct world *world, const char *reason);
/* A line of the engine: 0 or -EPROTO. */
__attribute__((format(printf, 2, 3))) int world_engine_says(struct world *world, const char *format, ...);
/* Whole events, which must be taken. */
void world_started(struct world *world, long long id, const char *model);
void world_committed(struct world *world, long long id, long long pos);
void world_row(struct world *world, long long id, long long pos,
               double logprob); /* NAN: the last one, which has none */
void world_done(struct world *world, long long id, const char *finish_reason);
void world_loaded(struct world *world, long long id, const char *model, const char *stamp);
void world_unloaded(struct world *world, const char *model, const char *reason); /* by the engine itself */
void world_error(struct world *world, long long id, const char *code);
/* Time passes, as the loop lets it: what is due happens. */
void world_pass(struct world *world, uint64_t ms);
/* What happens after each event of the loop. */
void world_flush(struct world *world);

/* What the client, or the engine, was sent since the last look, lines with '\n'; `*` stands for any text. */
void world_hears(struct world *world, int client, const char *pattern);
void world_engine_hears(struct world *world, const char *pattern);
bool world_matches(const char *text, size_t len, const char *pattern);
/* Drops what was written so far. */
void world_forget(struct world *world);

/* The id that the engine knows the latest request by. */
long long world_last_id(const struct world *world);

#endif
