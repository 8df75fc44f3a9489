/* detect.c: the list of detectors, and the comparison of two lists of ids. Constant; any thread. */
#include <stdio.h>

#include "detect_priv.h"

const struct halo_detector halo_detectors[] = {
    {"attractor_first", "the first 128 ids: one id or few of them", halo_look_attractor_first},
    {"attractor_last", "the last 128 ids: one id or few of them", halo_look_attractor_last},
    {"long_collapse", "any 128 ids in a row: one id or few of them", halo_look_collapse},
    {"unique_ratio", "all ids: few different ones", halo_look_unique},
    {"ngram_density", "the second half: one group of three ids", halo_look_ngram},
    {"period", "the end repeats an exact cycle", halo_look_period},
    {"loop_guard", "the last 256 ids: a group of four again and again", halo_look_loop_guard},
    {"eos_immediate", "the reply ends before it says anything", halo_look_eos_immediate},
    {"whitespace_only", "nothing but white space", halo_look_whitespace},
    {"utf8", "bytes that are not UTF-8, or replacement characters", halo_look_utf8},
    {"script_drift", "a script that neither the prompt nor the beginning has", halo_look_script_drift},
    {"prompt_echo", "the prompt once more", halo_look_prompt_echo},
    {"special_leak", "control tokens as text", halo_look_special_leak},
    {"think_empty", "a thought without content", halo_look_think_empty},
    {"think_stall", "a thought that does not end", halo_look_think_stall},
    {"toolcall_shape", "tool calls: complete, well-formed, as declared", halo_look_toolcall},
    {"step_time_spike", "steps that take far longer than those before", halo_look_step_time},
    {"logprob_collapse", "every id all but certain", halo_look_logprob},
    {"numbers", "log-probabilities that are not finite, or above 0", halo_look_numbers},
};
const size_t halo_n_detectors = sizeof halo_detectors / sizeof *halo_detectors;

const char *halo_verdict_name(enum halo_verdict verdict)
{
    static const char *const names[] = {"OK", "WARN", "FAIL", "SKIP"};
    return names[verdict];
}

void halo_detect_parity(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b, struct halo_finding *ret)
{
    size_t n = n_a < n_b ? n_a : n_b, at = 0, used = 0;
    char around[2][64];
    if (n == 0) {
        halo_find(ret, HALO_VERDICT_SKIP, "%zu and %zu ids: nothing to compare", n_a, n_b);
        return;
    }
    while (at < n && a[at] == b[at])
        at++;
    *ret = (struct halo_finding){HALO_VERDICT_OK, ""};
    if (at == n && n_a == n_b)
        return;
    if (at == n) {
        halo_find(ret, HALO_VERDICT_FAIL, "equal for %zu ids, then one ends: %zu and %zu", n, n_a, n_b);
        return;
    }
    for (int side = 0; side < 2; side++) {
        const int32_t *ids = side ? b : a;
        used = 0;
        for (size_t i = at < 2 ? 0 : at - 2; i <= at + 2 && i < (side ? n_b : n_a); i++)
            used += (size_t)snprintf(around[side] + used, sizeof around[side] - used, "%s%d", used ? " " : "", ids[i]);
    }
    halo_find(ret, HALO_VERDICT_FAIL, "first mismatch at %zu: %s against %s", at, around[0], around[1]);
}
