/* bringup_priv.h: what the files of `halo-doctor bringup` share: the matrix and its conclusion.
 *
 * A row is a variant of the environment, a column a stage. Each cell is a process of its own.
 */
#ifndef HALO_DOCTOR_BRINGUP_PRIV_H
#define HALO_DOCTOR_BRINGUP_PRIV_H

#include <stdbool.h>
#include <stdio.h>

#include "child.h"

/* VARIANT(ID, name, what is set: at most three) */
#define HALO_BRINGUP_VARIANTS(X)                                                                                       \
    X(DEFAULT, "default", NULL, NULL)                                                                                  \
    X(POLLING, "polling", "HSA_ENABLE_INTERRUPT=0", NULL)                                                              \
    X(NO_SDMA, "no-sdma", "HSA_ENABLE_SDMA=0", NULL)                                                                   \
    X(POLLING_NO_SDMA, "polling-no-sdma", "HSA_ENABLE_INTERRUPT=0", "HSA_ENABLE_SDMA=0")                               \
    X(OVERRIDE, "override", "HSA_OVERRIDE_GFX_VERSION=11.5.1", NULL)

/* STAGE(ID, name, title) */
#define HALO_BRINGUP_STAGES(X)                                                                                         \
    X(OPEN, "open", "open")                                                                                            \
    X(PAGEABLE, "pageable", "upload, pageable")                                                                        \
    X(PINNED, "pinned", "upload, pinned")                                                                              \
    X(ZERO_COPY, "zero-copy", "upload, zero-copy")                                                                     \
    X(LAUNCH, "launch", "first launch")                                                                                \
    X(PLAIN, "decode", "decode, launched")                                                                             \
    X(GRAPH, "graph", "graph")                                                                                         \
    X(DECODE, "graph-decode", "decode, graphs")

enum halo_bringup_variant {
#define X(id, name, set1, set2) HALO_BRINGUP_##id,
    HALO_BRINGUP_VARIANTS(X)
#undef X
        HALO_BRINGUP_N_VARIANTS
};

enum halo_bringup_stage {
#define X(id, name, title) HALO_BRINGUP_STAGE_##id,
    HALO_BRINGUP_STAGES(X)
#undef X
        HALO_BRINGUP_N_STAGES
};

/* Bits, so that a rule can name several. */
enum halo_bringup_outcome {
    HALO_BRINGUP_OK = 1,
    HALO_BRINGUP_HANG = 2,
    HALO_BRINGUP_ERROR = 4,
    HALO_BRINGUP_WRONG = 8,
    HALO_BRINGUP_CRASH = 16,
    HALO_BRINGUP_STUCK = 32, /* a hang whose process cannot be killed */
    HALO_BRINGUP_SKIP = 64,  /* not tried */
};

struct halo_bringup_cell {
    enum halo_bringup_outcome outcome;
    uint32_t took_ms;
    char says[400]; /* of one that is not OK: what happened, where */
};

struct halo_bringup_matrix {
    struct halo_bringup_cell cell[HALO_BRINGUP_N_VARIANTS][HALO_BRINGUP_N_STAGES];
    char runtime[320]; /* what was found of runtime and GPU, by the first row that opened */
};

struct halo_bringup_options {
    const char *program; /* this program, for the cells */
    const char *hip_lib;
    uint32_t stage_ms, decode_ms;
    unsigned variants; /* bits */
};

const char *halo_bringup_outcome_name(enum halo_bringup_outcome outcome); /* "OK", "HANG", ... */
const char *halo_bringup_variant_name(unsigned variant);
const char *halo_bringup_stage_name(unsigned stage);
const char *halo_bringup_stage_title(unsigned stage);
/* "NAME=VALUE NAME=VALUE", or "-". */
const char *halo_bringup_variant_text(unsigned variant, char *text, size_t n_bytes);

/* ---- matrix.c: fills it; prints each cell to `progress` (may be NULL) as it ends. 0 or negative errno. ---- */
int halo_bringup_matrix_run(const struct halo_bringup_options *options, struct halo_bringup_matrix *ret,
                            FILE *progress);

/* ---- stage.c: in a cell's process: runs the stage and reports the result. An exit status. ---- */
int halo_bringup_stage_run(const char *name, const char *hip_lib, uint32_t decode_ms);
/* What it reports. */
struct halo_bringup_word {
    enum halo_bringup_outcome outcome;
    char says[400], runtime[320];
};

/* ---- rule.c: the decision table ---- */
struct halo_bringup_condition {
    bool every; /* each cell of the masks, else at least one */
    unsigned variants, stages, outcomes;
};
struct halo_bringup_rule {
    const char *id;
    struct halo_bringup_condition when[4]; /* all of them; variants 0: none */
    bool works;                            /* halod can run on the GPU with the settings below */
    const char *says;                      /* what it is, and what to do about it */
    const char *conf;                      /* lines of halod.conf */
    const char *environment;               /* of the service: "NAME=VALUE" separated by spaces; "": nothing */
    const char *source;
};
/* The first that fits; never NULL. Pure. */
const struct halo_bringup_rule *halo_bringup_decide(const struct halo_bringup_matrix *matrix);
size_t halo_bringup_rule_count(void);
const struct halo_bringup_rule *halo_bringup_rule_at(size_t index);

/* ---- report.c. 0 or -EIO. ---- */
int halo_bringup_write_markdown(FILE *out, const struct halo_bringup_matrix *matrix,
                                const struct halo_bringup_rule *rule);
int halo_bringup_write_json(FILE *out, const struct halo_bringup_matrix *matrix, const struct halo_bringup_rule *rule);

#endif
