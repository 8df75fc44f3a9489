/* detect.h: is what a model said broken? Detectors over one recorded reply: loops, leaks, malformed calls, silence.
 *
 * No GPU, no daemon, no tokenizer: the input is what the events of a reply say (ids, text, times). A detector answers
 * OK, WARN (soft: look at it), FAIL (hard: it is broken) or SKIP with the reason: too little to judge is never OK.
 * Pure: nothing is kept, nothing is allocated beyond a call. Any thread.
 */
#ifndef HALO_DETECT_DETECT_H
#define HALO_DETECT_DETECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum halo_verdict { HALO_VERDICT_OK, HALO_VERDICT_WARN, HALO_VERDICT_FAIL, HALO_VERDICT_SKIP };
const char *halo_verdict_name(enum halo_verdict verdict); /* "OK", "WARN", "FAIL", "SKIP" */

enum halo_detect_end { HALO_DETECT_OPEN, HALO_DETECT_STOP, HALO_DETECT_LENGTH, HALO_DETECT_OTHER };

/* One reply. Everything is the caller's. */
struct halo_detect_reply {
    const int32_t *ids; /* committed, the end token included */
    size_t n_ids;
    const double *t_ms, *logprobs; /* [n_ids], or NULL: not recorded */
    const size_t *text_at;         /* [n_ids] bytes of text before each was committed; NULL: not recorded */
    const char *text;              /* all of it, however it was cut into events */
    size_t n_text;
    const char *prompt; /* NULL: not known */
    size_t n_prompt;
    const char *tools; /* a JSON list of the tools that were declared; NULL: none */
    size_t n_tools;
    enum halo_detect_end end; /* OPEN: no `done` came */
    size_t stall_ids;         /* ids that a thought may take; 0: any number */
};

struct halo_finding {
    enum halo_verdict verdict;
    char detail[200]; /* one sentence; empty when OK */
};

struct halo_detector {
    const char *name, *what;
    void (*look)(const struct halo_detect_reply *reply, struct halo_finding *ret);
};

extern const struct halo_detector halo_detectors[];
extern const size_t halo_n_detectors;

/* The exact cycle that the end of a list goes round in: the last n_ids of it, n_ids / period times. */
struct halo_cycle {
    size_t period, n_ids;
};

/* Looks for cycles of at most `max_period` ids, of any content, that were gone round at least three times over at least
 * 24 ids; of several the longest, the shortest period first. False: there is none. Costs a few comparisons for each
 * period as long as nothing repeats. */
bool halo_detect_cycle(const int32_t *ids, size_t n, size_t max_period, struct halo_cycle *ret);

/* What ends no more by itself: 96 ids or six rounds of it. */
static inline bool halo_cycle_is_hard(const struct halo_cycle *cycle)
{
    return cycle->n_ids >= 96 || cycle->n_ids >= 6 * cycle->period;
}

/* Two lists of ids that should be equal: FAIL with the first mismatch and what stands around it; SKIP when one is
 * empty. For run against run, resumed against undisturbed, speculative against plain. */
void halo_detect_parity(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b, struct halo_finding *ret);

/* ---- what proves them ---- */

/* A reply made up for one detector, and what that one must say of it. */
struct halo_detect_case {
    const char *detector, *name;
    enum halo_verdict verdict;
    struct {
        size_t n, period; /* n ids that go round `period` fresh ones; 0: all different */
    } ids[4];
    const char *text; /* NULL: none */
    size_t repeat;    /* the text that many times; 0: once */
    const char *prompt, *tools;
    double step_ms, spike_ms, logprob; /* of each id; one step in 40 is spike_ms longer, when not 0 */
    enum halo_detect_end end;
    size_t stall_ids;
};

extern const struct halo_detect_case halo_detect_cases[];
extern const size_t halo_n_detect_cases;

/* Runs one case. 0, 1: the detector said something else (in `ret`), or there is no such detector; -ENOMEM. */
int halo_detect_try(const struct halo_detect_case *test, struct halo_finding *ret);

#endif
