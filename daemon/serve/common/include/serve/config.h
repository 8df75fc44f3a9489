/* config.h: the settings of halod: what they are, their defaults, and how a file and the command line change them.
 *
 * Order of precedence: built-in defaults, then the file, then flags. Every number has a range that the file is held to;
 * an unknown section or key is an error with its line number. docs/CONFIG.md has the table that a test compares with
 * this list. The object owns its strings. One thread.
 */
#ifndef HALO_SERVE_CONFIG_H
#define HALO_SERVE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <base/fault.h>
#include <base/log.h>

#define HALO_CONFIG_MODEL_DIRS 64    /* what the engine takes */
#define HALO_CONFIG_SOCKET_BYTES 107 /* what a socket's address holds beside its NUL */

struct halo_config {
    char *socket_path; /* NULL: the default place */
    char *admin_group; /* whose members may do what root may; NULL: nobody */
    char **model_dirs; /* directories searched for *.gguf, in this order */
    size_t n_model_dirs;
    char *state_dir;
    char *engine_path; /* halod-engine */
    char *hip_lib;     /* NULL: the engine searches libamdhip64.so by itself */
    int64_t gpus;      /* that the layers of each model are divided over */
    char *remote;      /* workers whose GPUs the engine uses: unix:PATH or HOST:PORT each; NULL: this machine's */
    char *remote_key;  /* file with their key; NULL: none */
    char *doctor_path; /* halo-doctor; NULL: there is none */
    enum halo_log_level log_level;
    char *device;             /* auto, cpu, hip */
    int64_t threads;          /* of the cpu device; 0: the engine chooses */
    bool sandbox;             /* the engine gives up the rights that it does not need */
    bool any_path;            /* root and our user may name files outside model_dirs; false in systemd's service */
    bool on_demand;           /* a request that names a model loads it */
    int64_t keep_alive_s;     /* an unused model is unloaded after this time; 0: never */
    int64_t save_bytes;       /* of cached prefixes on disk, at most; 0: none are saved */
    int64_t save_ms;          /* of drain_ms: for saving them */
    int64_t budget_bytes;     /* of all models together; 0: what is free */
    int64_t checkpoint_bytes; /* of each model, for checkpoints of recurrent states */
    bool normalize;           /* default of generate.normalize */
    bool emit_token_ids;      /* `committed` events for every generate */

    int64_t connections;     /* in all */
    int64_t open_requests;   /* per connection */
    int64_t queued_requests; /* in all: accepted, not yet begun */
    int64_t line_bytes;
    int64_t output_high_bytes; /* per connection */
    int64_t output_low_bytes;
    int64_t output_bytes;      /* of events that were not read, in all */
    int64_t output_user_bytes; /* the same, per user id */
    int64_t stall_ms;
    int64_t resume_bytes;      /* request lines kept, in all */
    int64_t resume_user_bytes; /* request lines kept, per user id */

    int64_t heartbeat_ms; /* silence of the engine after which it is killed */
    /* How long the engine may be in one phase before it is killed; 0: without limit. */
    int64_t load_ms;        /* a file or folder that is read or written, a model's memory */
    int64_t first_ms;       /* the first step of a model */
    int64_t prefill_ms;     /* one op of a step with prompts */
    int64_t step_ms;        /* one op of any other step */
    int64_t text_ms;        /* one piece of text work */
    int64_t ready_ms;       /* from spawn to the engine's hello */
    int64_t restart_min_ms; /* back-off between a death and the next start: first ... */
    int64_t restart_max_ms; /* ... and longest */
    int64_t request_deaths; /* engines in a row that die with a request without progress and end it */
    int64_t breaker_deaths; /* deaths without progress in a row, after which requests are refused at once ... */
    int64_t breaker_ms;     /* ... for this time; an engine that was ready for this long has made progress */
    int64_t wait_ms;        /* how long a request waits for an engine */
    int64_t status_ms;      /* how long status, stats and hello wait for the engine's part */

    int64_t doctor_ms; /* deadline of halo-doctor after a death; 0: it is not run */
    int64_t drain_ms;  /* deadline of open requests after SIGTERM */
    int64_t kill_ms;   /* from end of file on the engine's socket to SIGKILL */
};

/* Sets the defaults. -ENOMEM. */
int halo_config_init(struct halo_config *config);
void halo_config_finish(struct halo_config *config);

/* Reads a file over what is set. -EINVAL with "PATH:LINE: reason" in `fault`, or the errno of opening it. */
int halo_config_read(struct halo_config *config, const char *path, struct halo_fault *fault);

/* Sets one key as the file would. */
int halo_config_set(struct halo_config *config, const char *section, const char *key, const char *value,
                    struct halo_fault *fault);

/* Replaces the string that *slot owns. -ENOMEM. */
int halo_config_set_string(char **slot, const char *value);

/* -E2BIG beyond HALO_CONFIG_MODEL_DIRS, -ENOMEM. */
int halo_config_add_model_dir(struct halo_config *config, const char *dir);
void halo_config_clear_model_dirs(struct halo_config *config);

/* Relations that no single key shows (low mark below high mark, ...). */
int halo_config_check(const struct halo_config *config, struct halo_fault *fault);

/* Whether cached prefixes are saved: there is a place for them, room and time. */
bool halo_config_saves(const struct halo_config *config);

/* The list of keys, for the test of the documentation. false past the end. */
struct halo_config_key_info {
    const char *section, *key;
    bool is_number;
    int64_t min, max, value; /* of a number: range and default */
};
bool halo_config_key_at(size_t i, struct halo_config_key_info *ret_info);
/* What number key `i` has in `config`. */
int64_t halo_config_number(const struct halo_config *config, size_t i);

#endif
