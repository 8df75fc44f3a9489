/* profile.h: how fast this machine reads one model: its memory as the device sees it, the drive that holds the file.
 *
 * One profiling at a time goes through the threads (struct halo_profiling): the io thread finds and opens the file, the
 * device thread measures memory when nobody waits for it, the prefetch thread reads the file at random, one point of
 * the grid after the other and loads in between, the port answers, the io thread keeps the record. A record holds for
 * the machine, device, kernels, file and drive that it was measured with, and for HALO_PROFILE_DAYS.
 */
#ifndef HALO_ENGINE_PROFILE_H
#define HALO_ENGINE_PROFILE_H

#include <stdatomic.h>

#include <model/placement.h>

#include <engine/drive.h>
#include <engine/instance.h>
#include <engine/phase.h>
#include <engine/stats.h>

#define HALO_PROFILE_DAYS 30
#define HALO_PROFILE_POINTS_MAX 64
#define HALO_PROFILE_BYTES_MAX 65536 /* of a record's file */

/* Random reads of one size, so many at a time. */
struct halo_profile_point {
    uint32_t block_bytes, depth;
    double bytes_s;
    double latency_s; /* median of one read */
};

struct halo_profile_record {
    struct halo_profile profile;
    struct halo_profile_point points[HALO_PROFILE_POINTS_MAX];
    uint32_t n_points;             /* 0: the drive was not measured */
    uint64_t span_bytes;           /* over which the reads were spread */
    uint64_t read_bytes;           /* that were read */
    char io[HALO_REMARK_BYTES];    /* how, and why not better */
    char fault[HALO_REMARK_BYTES]; /* why the drive was not measured; "": it was */
};

/* ---- pure ---- */

/* The points that may be the knee, by one measurement of each: of those that reach 80 % of the best rate the ones with
 * the fewest bytes in flight, and the best one. They are measured HALO_PROFILE_ROUNDS times in all, because single
 * measurements of a drive differ by 10 to 15 %. Returns how many. */
#define HALO_PROFILE_ROUNDS 3
#define HALO_PROFILE_CONTENDERS 12u
uint32_t halo_profile_contenders(const struct halo_profile_point *points, uint32_t n,
                                 uint32_t ret_index[HALO_PROFILE_POINTS_MAX]);
/* Of HALO_PROFILE_ROUNDS measurements of one point: the one with the middle rate. */
struct halo_profile_point halo_profile_median(const struct halo_profile_point rounds[HALO_PROFILE_ROUNDS]);

/* The point that the engine should read with: among those that reach 95 % of the best rate the one with the fewest
 * bytes in flight, and of these the one with the smaller blocks. More in flight brings no more, and makes whoever comes
 * next wait. NULL: no point has a rate. */
const struct halo_profile_point *halo_profile_knee(const struct halo_profile_point *points, uint32_t n);

/* Whether a stored profile holds for what is `here` (only the fields that say what figures hold for) and now. False:
 * the fault says what differs and what to type. `model`: as people call it. */
bool halo_profile_holds(const struct halo_profile *stored, const struct halo_profile *here, const char *model,
                        int64_t now_s, struct halo_fault *fault);

/* Of a record that is not there or cannot be read: adds what to type. */
void halo_profile_advise(struct halo_fault *fault, const char *model);

/* The fields of `here` that are the device's. */
void halo_profile_name_device(struct halo_profile *here, const struct halo_device_info *info);

/* ---- records on disk: STATE_DIR/profiles, one file for each path of a model and each device with its number of
 * threads; the io thread ---- */

/* The text of a record, as the port writes it. LOAD_FAILED: it is not one; the text says where. */
int halo_profile_parse(const char *text, size_t n, struct halo_profile_record *ret, struct halo_fault *fault);
/* The record of this device, as halo_profile_name_device writes it; without one, or with "" for a device, the newest of
 * the model's, so that halo_profile_holds can say what differs. NOT_FOUND: there is none. LOAD_FAILED: it cannot be
 * read or is not one. */
int halo_profile_load(const char *state_dir, const char *model_path, const char *device,
                      struct halo_profile_record *ret, struct halo_fault *fault);
/* Replaces the record in one step. */
int halo_profile_store(const char *state_dir, const char *model_path, const char *device, const char *text, size_t n,
                       struct halo_fault *fault);

/* ---- measuring ---- */

enum halo_profiling_stage {
    HALO_PROFILING_OPEN,   /* io: which file, whose drive, what is stored */
    HALO_PROFILING_MEMORY, /* device */
    HALO_PROFILING_DISK,   /* prefetch: a point of the grid, again and again */
    HALO_PROFILING_RETRY,  /* device: memory, where others used it the first time */
    HALO_PROFILING_COOL,   /* io: the drive's temperature after it all */
    HALO_PROFILING_WRITE,  /* port: the record's text */
    HALO_PROFILING_STORE,  /* io */
    HALO_PROFILING_DONE,   /* port */
};

struct halo_fetch;

struct halo_profiling {
    struct halo_note note, progress_note;
    struct halo_job *job; /* the port's; NULL: its request has ended, the rest only has to go */
    enum halo_profiling_stage stage;
    atomic_bool cancel; /* the port's wish */
    atomic_bool progress_posted;
    _Atomic uint32_t n_done, n_total; /* steps of the disk's part */
    _Atomic uint32_t at_block, at_depth;
    uint64_t shown_ns; /* the port's */

    char *model;       /* in: name or path; malloc */
    bool stored;       /* in: tell what is stored, measure nothing */
    uint64_t point_ns; /* in: time of one point */
    bool no_uring;     /* in: read with threads (tests) */
    struct halo_stats *stats;

    struct halo_fault fault; /* code NONE: going well */
    char path[HALO_MODEL_PATH_BYTES];
    struct halo_profile here; /* what figures hold for that are measured now; no figures */
    struct halo_profile_record record;
    struct halo_drives drives;
    double celsius; /* after reading */
    bool has_celsius;
    bool shared; /* others used device or drive meanwhile: the figures are too low */
    char *text;  /* of the record; malloc */
    size_t n_text;
    struct halo_fault store_fault; /* why the record is not kept; code NONE: it is */

    /* the prefetch thread's */
    struct halo_gguf *gguf; /* opened by the io thread */
    struct halo_fetch *fetch;
    uint8_t *buffer;
    uint32_t at; /* the measurement that is next: of all points, then of the contenders by turns */
    uint32_t contenders[HALO_PROFILE_POINTS_MAX], n_contenders;
    struct halo_profile_point finalists[HALO_PROFILE_CONTENDERS]; /* their medians */
    uint32_t n_confirmed;                                         /* knees that were measured for longer */
    struct halo_profile_point rounds[HALO_PROFILE_CONTENDERS][HALO_PROFILE_ROUNDS]; /* of each contender */
    uint64_t seed, n_draws;                                                         /* of the places that are read */
    uint64_t begin_steps;                                                           /* of the device */
};

/* The port, when it has the last word about it. NULL is accepted. */
void halo_profiling_destroy(struct halo_profiling *profiling);

/* The prefetch thread: the next step of the disk's part. 1: there are more, 0: over, negative: the fault is set. A file
 * that cannot be read directly is no failure: the record says why nothing was measured. `phase` may be NULL. */
int halo_profiling_step(struct halo_profiling *profiling, struct halo_phase *phase);
/* After the last step: gives back the buffer and the files. Reads that a drive has not answered are waited for. */
void halo_profiling_close(struct halo_profiling *profiling);

#endif
