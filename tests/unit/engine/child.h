/* child.h: the whole engine in a child process, on the scripted device, and its events as the peer sees them. */
#ifndef HALO_TESTS_CHILD_H
#define HALO_TESTS_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <engine/pressure_watch.h>
#include <protocol/line.h>
#include <protocol/message.h>

#include "fake_device.h"

#define CHILD_MAX 2048
#define CHILD_PATIENCE_MS 120000 /* what is waited for comes, on a slow machine late */

struct child_request { /* what came for one id */
    int64_t id;
    uint32_t n_terminal, n_started, n_rows, n_progress, n_notices;
    enum halo_ev_type terminal;
    enum halo_error error;
    enum halo_wire_finish finish;
    char message[512];
    int32_t ids[1200];
    uint32_t n_ids;
    char text[8192];
    uint32_t n_text;
    char started[2048], notice[1024];
    char last[16384]; /* the terminal line */
    uint32_t order;   /* of its end among all, from 1; 0: it is open */
};

struct child_phase {
    enum halo_wire_activity activity;
    int64_t ms;
    char what[1025];
};

struct child {
    pid_t pid;
    int fd_in, fd_out; /* the parent's ends */
    bool link;
    struct halo_line_reader lines;
    struct fake_control *control;                             /* shared with the child */
    struct child_request *requests;                           /* [CHILD_MAX] by id */
    struct child_phase phases[HALO_WIRE_THREAD_PREFETCH + 1]; /* of the last heartbeat, by enum halo_wire_thread */
    uint32_t n_ended;
    uint32_t n_unaddressed; /* events with id null, heartbeats apart */
    char last_unaddressed[4096];
    uint32_t n_closed; /* how often the device was closed; after child_end() */
};

/* Of the children that follow: the device (NULL: the scripted one), and where prefixes are saved (NULL: nowhere). */
extern const struct halo_device_ops *child_device;
extern const char *child_state_dir;
extern uint64_t child_save_bytes, child_save_ms;
extern size_t child_stack_bytes;  /* of threads that ask for none; 0: the default */
extern const char *child_dirs[8]; /* folders of models; none: that of the tree */
extern size_t child_n_dirs;
extern uint32_t child_max_models;                        /* 0: as many as there can be */
extern uint32_t child_threads;                           /* of the device */
extern const char *child_library;                        /* that reaches the device; NULL: its own choice */
extern uint64_t child_budget_bytes;                      /* of all models; 0: what is free */
extern uint64_t child_checkpoint_bytes;                  /* of each model */
extern struct halo_pressure_watch *child_watch;          /* of memory; NULL: nobody looks */
extern const struct halo_pressure_rules *child_pressure; /* NULL: the engine's own */

/* Starts with a healthy device unless the control is changed by `script` before. */
void child_start(struct child *child, bool link, void (*script)(struct fake_control *control));
/* Ends the input, reads the rest and takes the exit status, within 10 s. */
int child_end(struct child *child);
/* Kills it, as halod does with an engine that hangs. What it sent may be lost. */
void child_kill(struct child *child);

__attribute__((format(printf, 2, 3))) void child_send(struct child *child, const char *format, ...);
/* Reads until `request` has its terminal event; fails the test after 20 s. */
struct child_request *child_wait(struct child *child, int64_t id);
/* Asks for `stats`, under the ids after *id, until no page is held: the device thread tells what it holds after the
 * step in which the last answer went out. Returns the last answer, after 500 tries whatever it says. */
struct child_request *child_stats_at_rest(struct child *child, int64_t *id);
/* The number of this field in the terminal line; 0: it is not there. */
long child_number(const struct child_request *request, const char *key);
/* Reads what is there for up to this long. False at the end of the stream. */
bool child_read(struct child *child, int timeout_ms);
/* Loads the model in the tree under id 1. */
void child_load(struct child *child);

/* The model in the tree, as a file of its own: a link would be the same model. */
void child_copy_model(const char *to);
/* Ids of a prompt as they stand in a request, comma between them; room: 16 bytes an id. */
void child_prompt(char *ret, int n_ids);
/* The folder of the reference models: $HALO_SHARED/models, else ../shared/models. False after a message where there is
 * none: the test is skipped (77). */
bool child_find_models(char *ret, size_t n);
/* Where they are not, makes some in the folder `made` that take the place of fable-moe-Q4_K_M (4 layers of 8 experts,
 * 2 of which a token uses), fable-Q4_K_M, tiny-gpt-oss, tiny-llama and tiny-gemma3: random weights, for tests that
 * compare a model with itself. False: mkgguf failed. */
bool child_find_or_make_models(const char *mkgguf, const char *made, char *ret, size_t n, bool *ret_is_made);
/* 0: it is gone, with all that was in it. */
int child_remove_folder(const char *path);

#endif
