/* detect_priv.h: what the detectors share: findings in words, and the detectors themselves by file. */
#ifndef HALO_DETECT_DETECT_PRIV_H
#define HALO_DETECT_DETECT_PRIV_H

#include <detect/detect.h>

__attribute__((format(printf, 3, 4))) void halo_find(struct halo_finding *ret, enum halo_verdict verdict,
                                                     const char *format, ...);

/* The ids without the end token. */
static inline size_t halo_detect_n_body(const struct halo_detect_reply *reply)
{
    return reply->n_ids - (reply->end == HALO_DETECT_STOP && reply->n_ids > 0);
}

/* Where `what` stands in text[from, n); n: nowhere. */
size_t halo_detect_find(const char *text, size_t n, size_t from, const char *what);

typedef void halo_look(const struct halo_detect_reply *reply, struct halo_finding *ret);
/* repeat.c */
halo_look halo_look_attractor_first, halo_look_attractor_last, halo_look_collapse, halo_look_unique, halo_look_ngram,
    halo_look_period, halo_look_loop_guard;
/* said.c */
halo_look halo_look_eos_immediate, halo_look_whitespace, halo_look_utf8, halo_look_script_drift, halo_look_prompt_echo,
    halo_look_special_leak, halo_look_think_empty, halo_look_think_stall;
/* toolcall.c */
halo_look halo_look_toolcall;
/* measured.c */
halo_look halo_look_step_time, halo_look_logprob, halo_look_numbers;

#endif
