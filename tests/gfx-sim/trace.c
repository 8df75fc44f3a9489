/* trace.c: what the waves of one block execute, kept for cycles.c. */
#include <stdlib.h>

#include "isa_priv.h"

#define N_BANKS 32
#define LINE_BYTES 128

static struct isa_trace recorded;

const struct isa_trace *isa_trace(void)
{
    return &recorded;
}

void isa_trace_begin(const struct isa_kernel *k, uint32_t n_waves)
{
    for (uint32_t i = 0; i < recorded.n_waves; i++) {
        free(recorded.waves[i].events);
        free(recorded.waves[i].lines);
    }
    free(recorded.waves);
    recorded = (struct isa_trace){.kernel = k, .n_waves = n_waves, .waves = NULL};
    if (n_waves > 0)
        recorded.waves = isa_zeros(n_waves, sizeof(*recorded.waves));
}

struct wave_trace *isa_trace_wave(uint32_t index)
{
    return &recorded.waves[index];
}

void isa_trace_ins(struct wave_trace *t, const struct ins *i)
{
    t->events = isa_grow(t->events, t->n, &t->cap, sizeof(*t->events));
    t->events[t->n++] = (struct trace_event){.ins = i, .first_line = t->n_lines};
}

void isa_trace_jump(struct wave_trace *t)
{
    t->events[t->n - 1].jumps = true;
}

static bool has_word(const uint32_t *words, uint32_t n, uint32_t word)
{
    for (uint32_t i = 0; i < n; i++)
        if (words[i] == word)
            return true;
    return false;
}

/* Passes of a group of lanes that is served together: a bank gives one word in each, to all lanes that want it. */
static uint32_t count_passes(const uint32_t *at, uint32_t lanes, uint32_t first, uint32_t n, uint32_t n_words)
{
    uint32_t words[N_BANKS][N_LANES], n_of[N_BANKS] = {0}, most = 0;
    for (uint32_t l = first; l < first + n; l++)
        for (uint32_t k = 0; lanes >> l & 1 && k < n_words; k++) {
            const uint32_t word = at[l] / 4 + k, bank = word % N_BANKS;
            if (has_word(words[bank], n_of[bank], word))
                continue;
            words[bank][n_of[bank]++] = word;
            most = n_of[bank] > most ? n_of[bank] : most;
        }
    return most;
}

void isa_trace_lds(struct wave_trace *t, const uint32_t at[N_LANES], uint32_t lanes, uint32_t n)
{
    const uint32_t n_words = n <= 4 ? 1 : n / 4, group = n <= 4 ? 32 : n == 8 ? 16 : 8;
    struct trace_event *e = &t->events[t->n - 1];
    for (uint32_t first = 0; first < N_LANES; first += group) {
        const uint32_t passes = count_passes(at, lanes, first, group, n_words);
        e->passes = (uint16_t)(e->passes + (passes > 0 ? passes : 1));
        e->least_passes++;
    }
}

void isa_trace_memory(struct wave_trace *t, uint64_t at, uint32_t n)
{
    struct trace_event *e = &t->events[t->n - 1];
    for (uint64_t line = at / LINE_BYTES; line <= (at + n - 1) / LINE_BYTES; line++) {
        bool is_known = false;
        for (uint32_t j = t->n_lines; j-- > e->first_line && !is_known;)
            is_known = t->lines[j] == line;
        if (is_known)
            continue;
        t->lines = isa_grow(t->lines, t->n_lines, &t->cap_lines, sizeof(*t->lines));
        t->lines[t->n_lines++] = line;
        e->n_lines++;
    }
}
