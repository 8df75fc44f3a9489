/* checkup_read.c: one line of halo-doctor's report. A program's output like any other: nothing is taken on trust. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include <serve/child/checkup.h>

#define LINE_BYTES 8192 /* longer than any finding */
#define MAX_STAGES 8

const char *halo_checkup_stage(enum halo_engine_state state, const struct halo_engine_beat *beat)
{
    if (state == HALO_ENGINE_STARTING)
        return "open";
    if (beat->threads[HALO_WIRE_THREAD_PREFETCH].activity != HALO_WIRE_ACTIVITY_IDLE)
        return "load";
    switch (beat->threads[HALO_WIRE_THREAD_DEVICE].activity) {
    case HALO_WIRE_ACTIVITY_MODEL: return "load";
    case HALO_WIRE_ACTIVITY_FIRST: return "launch";
    case HALO_WIRE_ACTIVITY_PREFILL:
    case HALO_WIRE_ACTIVITY_DECODE:
    case HALO_WIRE_ACTIVITY_STEP: return "step";
    default: return "";
    }
}

static const char *text_of(const json_t *finding, const char *key)
{
    const char *text = json_string_value(json_object_get(finding, key));
    return text ? text : "";
}

static bool has_stage(const json_t *finding, const char *stage)
{
    const json_t *stages = json_object_get(finding, "stages");
    if (stage[0] == '\0')
        return true;
    for (size_t i = 0; i < json_array_size(stages) && i < MAX_STAGES; i++) {
        const char *name = json_string_value(json_array_get(stages, i));
        if (name && strcmp(name, stage) == 0)
            return true;
    }
    return false;
}

static enum halo_checkup_rank rank_of(const char *verdict, bool fits)
{
    if (strcmp(verdict, "FAIL") == 0)
        return fits ? HALO_CHECKUP_EXPLAINS : HALO_CHECKUP_FAILS;
    return strcmp(verdict, "WARN") == 0 && fits ? HALO_CHECKUP_WARNS : HALO_CHECKUP_NOTHING;
}

/* The last bytes of a text that was cut may be a piece of a character. */
static void mend_end(char *text)
{
    size_t n = strlen(text), i = n;
    while (i > 0 && n - i < 4 && ((unsigned char)text[i - 1] & 0xc0) == 0x80)
        i--;
    if (i > 0 && (unsigned char)text[i - 1] >= 0xc0)
        text[i - 1] = '\0';
}

void halo_checkup_take(struct halo_checkup_finding *best, const char *line, size_t len, const char *stage)
{
    json_t *finding = len <= LINE_BYTES ? json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *id = text_of(finding, "id"), *verdict = text_of(finding, "verdict");
    const char *advice = text_of(finding, "advice");
    if (id[0] != '\0' && verdict[0] != '\0') {
        enum halo_checkup_rank rank = rank_of(verdict, has_stage(finding, stage));
        best->n_read++;
        best->no_gpu = best->no_gpu || (strcmp(id, "driver") == 0 && strcmp(verdict, "FAIL") == 0);
        if (rank > best->rank) {
            best->rank = rank;
            int n = snprintf(best->text, sizeof(best->text), "%.32s %.8s: %s", id, verdict, advice);
            if (n < 0 || (size_t)n >= sizeof(best->text))
                mend_end(best->text);
        }
    }
    json_decref(finding);
}
