/* pace.c: the time that prompts may take beside replies.
 *
 * Device thread; a few numbers. The time of a decode step follows a faster one quickly and a slower one slowly, for
 * what makes a step slow by chance would be paid by everybody's next token. What a row adds is a difference of two
 * noisy times: one step moves it by a quarter at most.
 */
#include <engine/pace.h>

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BESIDE 8   /* rows: when nothing was measured */
#define LEAST_ALONE 64   /* every step reads all weights once: a smaller piece wastes bandwidth */
#define TRUSTED_ROWS 8   /* a step of fewer says little about the time of a row */
#define AGAIN_AFTER 4    /* mixed steps until a slow decode step is looked at again */
#define TILE 16          /* rows that kernels like to have together */
#define APART 1.5        /* shares that pieces add however few they are: not every step has some */
#define IDLE_NS 20000000 /* between two chunks: they do not follow each other */

int halo_pace_init(struct halo_pace *pace, uint32_t max_decodes)
{
    *pace = (struct halo_pace){.max_decodes = max_decodes};
    pace->decode_ns = calloc((size_t)max_decodes + 1, sizeof(*pace->decode_ns));
    return pace->decode_ns ? 0 : -ENOMEM;
}

void halo_pace_finish(struct halo_pace *pace)
{
    free(pace->decode_ns);
    *pace = (struct halo_pace){0};
}

double halo_pace_decode_ns(const struct halo_pace *pace, uint32_t n_decodes)
{
    assert(n_decodes <= pace->max_decodes);
    for (uint32_t n = n_decodes; n > 0; n--) /* fewer replies: a step that is rather too short */
        if (pace->decode_ns[n] > 0)
            return pace->decode_ns[n];
    for (uint32_t n = n_decodes + 1; n <= pace->max_decodes; n++)
        if (pace->decode_ns[n] > 0)
            return pace->decode_ns[n];
    return 0;
}

/* At least one: a prompt gets on, even where a row of it costs more than all the others' tokens. */
static uint32_t rows_in(double ns, double row_ns, uint32_t first, uint32_t most)
{
    double wanted = row_ns > 0 ? ns / row_ns : first;
    uint32_t rows = wanted >= most ? most : (uint32_t)wanted;
    if (rows >= 2 * TILE && rows < most)
        rows -= rows % TILE;
    return rows > 0 ? rows : most > 0;
}

uint32_t halo_pace_chunk(const struct halo_pace *pace, uint32_t n_left)
{
    if (pace->chunk_row_ns <= 0) /* a long chunk on a slow device would look like one that hangs */
        return n_left < HALO_PACE_CHUNK ? n_left : HALO_PACE_CHUNK;
    while (n_left / 2 >= HALO_PACE_CHUNK && n_left * pace->chunk_row_ns > HALO_PACE_CHUNK_NS)
        n_left /= 2;
    return n_left;
}

static uint32_t rows_alone(const struct halo_pace *pace, const struct halo_pace_load *load)
{
    if (load->streams)
        return load->n_left;
    if (!load->any_cut)
        return halo_pace_chunk(pace, load->n_left);
    uint32_t rows = rows_in(HALO_PACE_ALONE_NS, pace->row_ns, LEAST_ALONE, load->n_left);
    if (rows < LEAST_ALONE)
        rows = LEAST_ALONE;
    return rows < load->n_left ? rows : load->n_left;
}

/* As many rows as add as much again as any number does, but at most twice as many as ever before: what a row adds is
 * known no better than that. */
static uint32_t rows_apart(const struct halo_pace *pace, const struct halo_pace_load *load)
{
    uint32_t most = 2 * pace->line.most_rows;
    most = most < load->n_left ? most : load->n_left;
    return pace->owed_ns > 0 ? 0 : rows_in(pace->line.fixed_ns, pace->line.row_ns, most, most);
}

static bool is_apart(const struct halo_pace *pace, uint32_t n_decodes, double share_ns)
{
    return pace->line.n_decodes == n_decodes && pace->line.fixed_ns > APART * share_ns;
}

uint32_t halo_pace_rows(const struct halo_pace *pace, const struct halo_pace_load *load)
{
    assert(load->n_prompts_of > 0);
    if (load->n_decodes == 0 && load->others_ns <= 0)
        return rows_alone(pace, load);
    double wait_ns = load->others_ns, row_ns = pace->row_ns;
    if (load->n_decodes > 0) {
        if (pace->decode_ns[load->n_decodes] <= 0 || pace->n_mixed >= HALO_PACE_MIXED)
            return 0; /* to be measured */
        wait_ns += pace->decode_ns[load->n_decodes];
        if (pace->added_row_ns > 0)
            row_ns = pace->added_row_ns;
    }
    double ns = HALO_PACE_PIECES * wait_ns / load->n_prompts_of;
    if (ns < HALO_PACE_LEAST_NS)
        ns = HALO_PACE_LEAST_NS;
    if (load->n_decodes > 0 && is_apart(pace, load->n_decodes, ns))
        return rows_apart(pace, load);
    return rows_in(ns, row_ns, FIRST_BESIDE, load->n_left);
}

static void follow(double *value, double seen, double weight)
{
    *value = *value > 0 ? *value + weight * (seen - *value) : seen;
}

/* A quarter of the way, to no more than twice and no less than half of what it was. */
static void follow_steadily(double *value, double seen, double at_first)
{
    if (*value <= 0)
        *value = at_first;
    double most = 2 * *value, least = *value / 2;
    *value += 0.25 * ((seen > most ? most : seen < least ? least : seen) - *value);
}

/* Rows of one number say nothing about the line: it stays as it was. */
static void note_line(struct halo_pace *pace, uint32_t n_decodes, uint32_t n_rows, double added_ns)
{
    double known_ns = pace->line.fixed_ns + n_rows * pace->line.row_ns;
    if (pace->line.n_decodes != n_decodes) {
        memset(&pace->line, 0, sizeof(pace->line));
        pace->line.n_decodes = n_decodes;
        known_ns = 0;
    }
    if (added_ns < 0)
        added_ns = 0;
    else if (known_ns > 0 && added_ns > 2 * known_ns) /* a hiccup, or more from now on: by steps */
        added_ns = 2 * known_ns;
    if (n_rows > pace->line.most_rows)
        pace->line.most_rows = n_rows;
    pace->line.weight = 0.9 * pace->line.weight + 1;
    pace->line.rows = 0.9 * pace->line.rows + n_rows;
    pace->line.ns = 0.9 * pace->line.ns + added_ns;
    pace->line.rows_rows = 0.9 * pace->line.rows_rows + (double)n_rows * n_rows;
    pace->line.rows_ns = 0.9 * pace->line.rows_ns + n_rows * added_ns;
    double rows = pace->line.rows / pace->line.weight, ns = pace->line.ns / pace->line.weight;
    double spread = pace->line.rows_rows / pace->line.weight - rows * rows;
    if (spread < rows * rows / 16)
        return;
    double row_ns = (pace->line.rows_ns / pace->line.weight - rows * ns) / spread;
    pace->line.row_ns = row_ns < 0 ? 0 : row_ns > ns / rows ? ns / rows : row_ns;
    pace->line.fixed_ns = ns - pace->line.row_ns * rows;
}

void halo_pace_note(struct halo_pace *pace, uint32_t n_decodes, uint32_t n_prompt_rows, uint64_t elapsed_ns)
{
    double ns = elapsed_ns > 0 ? (double)elapsed_ns : 1;
    if (n_decodes > 0)
        pace->queue.n = 0; /* all have ended */
    if (n_prompt_rows == 0) {
        double *known = &pace->decode_ns[n_decodes];
        assert(n_decodes > 0 && n_decodes <= pace->max_decodes);
        bool faster = ns<*known, slower = *known> 0 && ns > 1.5 * *known;
        follow(known, slower && ns > 2 * *known ? 2 * *known : ns, faster ? 0.5 : 0.125);
        pace->n_mixed = slower ? HALO_PACE_MIXED - AGAIN_AFTER : 0; /* a hiccup, or the machine has less time now */
        pace->owed_ns -= HALO_PACE_PIECES * *known;
        return;
    }
    if (n_prompt_rows >= TRUSTED_ROWS && (n_decodes == 0 || pace->row_ns <= 0))
        follow(&pace->row_ns, ns / (n_prompt_rows + n_decodes), 0.5);
    if (n_decodes == 0)
        return;
    double added_ns = ns - halo_pace_decode_ns(pace, n_decodes);
    follow_steadily(&pace->added_row_ns, added_ns / n_prompt_rows, ns / (n_prompt_rows + n_decodes));
    note_line(pace, n_decodes, n_prompt_rows, added_ns);
    pace->owed_ns = added_ns;
    pace->n_mixed++;
}

/* So many rows took so long. */
static void note_rows(struct halo_pace *pace, uint32_t n_rows, uint64_t ns)
{
    halo_pace_note(pace, 0, n_rows, ns);
    if (n_rows >= HALO_PACE_CHUNK)
        follow(&pace->chunk_row_ns, (double)ns / n_rows, 0.5);
}

void halo_pace_note_chunk(struct halo_pace *pace, uint32_t n_rows, bool ended, uint64_t began_ns, uint64_t returned_ns)
{
    uint32_t *queued = pace->queue.n_rows;
    if (pace->queue.n > 0 && began_ns > pace->queue.returned_ns + IDLE_NS)
        pace->queue.n = 0;
    if (pace->queue.n == 0)
        pace->queue.since_ns = began_ns;
    pace->queue.returned_ns = returned_ns;
    if (ended) {
        for (uint32_t i = 0; i < pace->queue.n; i++)
            n_rows += queued[i];
        pace->queue.n = 0;
        note_rows(pace, n_rows, returned_ns - pace->queue.since_ns);
        return;
    }
    if (pace->queue.n < 2) {
        queued[pace->queue.n++] = n_rows;
        return;
    }
    /* The first of three has ended, whatever else has. */
    note_rows(pace, queued[0], returned_ns - pace->queue.since_ns);
    pace->queue.since_ns = returned_ns;
    queued[0] = queued[1];
    queued[1] = n_rows;
}
