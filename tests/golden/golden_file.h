/* golden_file.h: a recorded evaluation: the ids fed and, for each recorded position, the ten largest logits of the
 * reference.
 *
 * Format: one JSON object per model and prompt (format 1). `tokens` is the prompt, `greedy` what the reference
 * generated; feeding the one and then the other reproduces every recorded position. `lse` is the log-sum-exp of all
 * logits of the position.
 */
#ifndef HALO_GOLDEN_FILE_H
#define HALO_GOLDEN_FILE_H

#include <stdint.h>

#include <base/fault.h>
#include <base/hash.h>

#define HALO_GOLDEN_TOP 10
#define HALO_GOLDEN_PROMPTS 4

struct halo_golden_step {
    uint32_t pos;
    double lse;
    int32_t id[HALO_GOLDEN_TOP]; /* by falling logit */
    double logit[HALO_GOLDEN_TOP];
};

struct halo_golden_file {
    char model_sha256[HALO_SHA256_HEX];
    uint32_t n_vocab;
    uint32_t n_prompt, first_pos;
    uint32_t n_tokens; /* prompt and generated ones */
    int32_t *tokens;   /* [n_tokens] */
    uint32_t n_steps;  /* positions first_pos .. n_tokens - 2 */
    struct halo_golden_step *steps;
};

/* How far a well-known engine is from the same reference, with weights and activations as it uses them. */
struct halo_golden_peer {
    double mean, median; /* KLD11 over all four prompts */
    double prompt_mean[HALO_GOLDEN_PROMPTS], prompt_max_abs_logit[HALO_GOLDEN_PROMPTS];
};

extern const char *const halo_golden_prompts[HALO_GOLDEN_PROMPTS];

/* DIR/STEM.PROMPT.json. NOT_FOUND when it does not exist, LOAD_FAILED for anything inconsistent. */
int halo_golden_file_read(struct halo_golden_file *ret, const char *dir, const char *stem, const char *prompt,
                          struct halo_fault *fault);
void halo_golden_file_finish(struct halo_golden_file *file);

/* The entry STEM.gguf of `path`, of the setting "f32_kv" or "default". */
int halo_golden_peer_read(struct halo_golden_peer *ret, const char *path, const char *stem, const char *setting,
                          struct halo_fault *fault);

#endif
