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
#define SHORT 32         /* rows: longer pieces are tried where those of a step have fewer */
#define SEARCH_FIRST 32  /* pieces, all with as many replies, until then */
#define SEARCH_AGAIN 256 /* until they are tried again */
#define BETTER 0.75      /* a row of a piece twice as long that costs so much of one of the shorter is worth the wait */
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

/* Rows of a longer piece; 0: not in this step. */
static uint32_t rows_apart(const struct halo_pace *pace, uint32_t n_left)
{
    uint32_t rows = pace->apart.tried > 0 ? 2 * pace->apart.tried : pace->apart.rows;
    return pace->owed_ns > 0 ? 0 : rows < n_left ? rows : n_left;
}

static bool is_apart(const struct halo_pace *pace, uint32_t n_decodes)
{
    return pace->apart.n_decodes == n_decodes && (pace->apart.tried > 0 || pace->apart.rows > 0);
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
    if (load->n_decodes > 0 && is_apart(pace, load->n_decodes))
        return rows_apart(pace, load->n_left);
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

static void search_begin(struct halo_pace *pace, uint32_t n_rows, double added_ns)
{
    pace->apart.tried = pace->apart.best = n_rows;
    pace->apart.tried_ns = added_ns;
    pace->apart.best_row_ns = added_ns / n_rows;
}

static void search_end(struct halo_pace *pace)
{
    pace->apart.rows = pace->apart.best_row_ns <= pace->added_row_ns / 2 ? pace->apart.best : 0;
    pace->apart.tried = pace->apart.n = 0;
    pace->apart.search_at = SEARCH_AGAIN;
}

/* A piece twice as long as the one before that costs about twice as much says that longer ones bring nothing. One that
 * costs more than that ran in another way, and still longer ones may be cheap again. */
static void search_on(struct halo_pace *pace, uint32_t n_rows, double added_ns)
{
    uint32_t wanted = 2 * pace->apart.tried;
    double known_ns = pace->apart.tried_ns;
    if (n_rows >= wanted && added_ns / n_rows <= BETTER * pace->apart.best_row_ns) {
        pace->apart.best = n_rows;
        pace->apart.best_row_ns = added_ns / n_rows;
    }
    pace->apart.tried = n_rows;
    pace->apart.tried_ns = added_ns;
    if (n_rows < wanted || 2 * added_ns > HALO_PACE_APART_NS ||
        (added_ns > 1.5 * known_ns && added_ns < 2.5 * known_ns))
        search_end(pace);
}

/* A piece as long as longer ones are at present. */
static void note_longer(struct halo_pace *pace, uint32_t n_rows, double added_ns)
{
    pace->apart.n++;
    if (n_rows < pace->apart.rows) /* the rest of a prompt */
        return;
    if (added_ns / n_rows > pace->added_row_ns / 2) { /* or a row costs more everywhere: to be measured */
        pace->apart.rows = pace->apart.n = 0;
        pace->apart.search_at = SEARCH_FIRST;
    } else if (added_ns > HALO_PACE_APART_NS) {
        pace->apart.rows = n_rows / 2;
    } else if (pace->apart.n >= pace->apart.search_at && 2 * added_ns <= HALO_PACE_APART_NS) {
        search_begin(pace, n_rows, added_ns);
    }
}

static void note_beside(struct halo_pace *pace, uint32_t n_decodes, uint32_t n_rows, double ns)
{
    double added_ns = ns - halo_pace_decode_ns(pace, n_decodes), least_ns = 0.01 * ns;
    if (added_ns < least_ns)
        added_ns = least_ns;
    if (pace->apart.n_decodes != n_decodes) {
        memset(&pace->apart, 0, sizeof(pace->apart));
        pace->apart.n_decodes = n_decodes;
        pace->apart.search_at = SEARCH_FIRST;
    }
    if (pace->apart.tried > 0) {
        search_on(pace, n_rows, added_ns);
    } else if (pace->apart.rows > 0) {
        note_longer(pace, n_rows, added_ns);
    } else {
        follow_steadily(&pace->added_row_ns, added_ns / n_rows, ns / (n_rows + n_decodes));
        if (++pace->apart.n >= pace->apart.search_at && n_rows < SHORT && 2 * added_ns <= HALO_PACE_APART_NS)
            search_begin(pace, n_rows, added_ns);
    }
    pace->owed_ns = added_ns;
    pace->n_mixed++;
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
    if (n_decodes > 0)
        note_beside(pace, n_decodes, n_prompt_rows, ns);
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
