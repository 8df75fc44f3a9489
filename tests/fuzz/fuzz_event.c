/* fuzz_event.c: every event that the encoder can produce, whoever reads it takes.
 *
 * The input chooses a type and, field by field, a value within the range that message.def states: its ends, what is
 * between, what JSON has no number for, texts of every kind of character and of broken ones, long lists, JSON text that
 * is deep or wide. The event goes the way of an engine's: encoder, line reader, the scan of halod, the id that halod
 * puts in, the decoder. A program in which one of them refuses what another one made has two notions of the protocol.
 * An event may be larger than an answer; then the encoder says so, and nothing else happens.
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <protocol/envelope.h>
#include <protocol/line.h>
#include <protocol/message.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_BLOCKS 65536
#define SMALL_BYTES 4096 /* of one text or list, in most events */
#ifdef HALO_FUZZ_HUNT    /* libFuzzer wants many inputs; the replays have the large ones */
#define HUGE_BYTES ((size_t)1 << 18)
#else
#define HUGE_BYTES ((size_t)40 << 20) /* of all texts and lists of a huge event: more than an answer may have */
#endif

/* The choices of one input, and the memory of the event that they make. */
struct source {
    const uint8_t *data;
    size_t size, at;
    size_t left; /* bytes that may still be spent on texts and lists */
    void *blocks[MAX_BLOCKS];
    size_t n_blocks;
};

static unsigned choose(struct source *s, unsigned n)
{
    unsigned byte = s->at < s->size ? s->data[s->at++] : 0;
    return byte % n;
}

static void *take(struct source *s, size_t n)
{
    void *at = s->n_blocks < MAX_BLOCKS ? calloc(1, n ? n : 1) : NULL;
    if (!at)
        abort();
    s->blocks[s->n_blocks++] = at;
    return at;
}

static void release(struct source *s)
{
    while (s->n_blocks > 0)
        free(s->blocks[--s->n_blocks]);
}

/* A count from `lo` to `hi` of things of `bytes` each: none, one, a few, or as many as there is room for. */
static size_t choose_count(struct source *s, uint64_t lo, uint64_t hi, size_t bytes)
{
    uint64_t room = s->left / bytes, n;
    switch (choose(s, 5)) {
    case 0: n = lo; break;
    case 1: n = 1; break;
    case 2: n = 1 + choose(s, 9); break;
    case 3: n = room / (1 + choose(s, 64)); break;
    default: n = room;
    }
    n = n > hi ? hi : n > room ? room : n;
    n = n < lo ? lo : n;
    s->left -= n * bytes < s->left ? n * bytes : s->left;
    return n;
}

/* How many of `n` items there can be when all behind the third are copies of it: they share its texts, but whoever
 * reads the event reads the `bytes` of each. */
static size_t spend_copies(struct source *s, size_t n, size_t bytes)
{
    size_t copies = bytes ? s->left / bytes : n - 3;
    copies = copies < n - 3 ? copies : n - 3;
    s->left -= copies * bytes;
    return 3 + copies;
}

/* ---- values ---- */

static int64_t pick_i64(struct source *s, int64_t lo, int64_t hi)
{
    switch (choose(s, 5)) {
    case 0: return lo;
    case 1: return hi;
    case 2: return lo + (hi > lo);
    case 3: return (int64_t)((uint64_t)lo + ((uint64_t)hi - (uint64_t)lo) / (2 + choose(s, 60)));
    default: return hi - (hi > lo);
    }
}

static double pick_f64(struct source *s, double lo, double hi)
{
    static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0, 5e-324, 0.1, 1e15, -1e-5, 123456789.5};
    switch (choose(s, 5)) {
    case 0: return lo;
    case 1: return hi;
    case 2: return lo + (hi - lo) / (1 + choose(s, 200));
    default: {
        double value = odd[choose(s, sizeof(odd) / sizeof(odd[0]))];
        return isfinite(value) && (value < lo || value > hi) ? lo : value;
    }
    }
}

/* What a text is made of: the bytes, and how many they count for once broken pieces are U+FFFD. */
static const struct {
    const char *bytes;
    size_t n, counts;
} units[] = {
    {"x", 1, 1},
    {"\x01", 1, 1},
    {"\"", 1, 1},
    {"\\", 1, 1},
    {"\n", 1, 1},
    {"\x7F", 1, 1},
    {"\0", 1, 1},
    {"\xC3\xA9", 2, 2},
    {"\xE2\x82\xAC", 3, 3},
    {"\xF0\x9F\xA6\x8A", 4, 4},
    {"\xFF", 1, 3},
    {"\xE2\x82", 2, 3},
    {"\xED\xA0\x80", 3, 9},
    {"\xF4\x90\x80\x80", 4, 12},
    {"\xC0\xAF", 2, 6},
    {"\xE2\x80\xA8", 3, 3},
};

static struct halo_str pick_str(struct source *s, int64_t lo, int64_t hi)
{
    unsigned unit = choose(s, sizeof(units) / sizeof(units[0]));
    size_t n = choose_count(s, 0, (uint64_t)hi / units[unit].counts, units[unit].n);
    if (n == 0 && lo > 0)
        return halo_str_of("y");
    char *text = take(s, n * units[unit].n);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * units[unit].n, units[unit].bytes, units[unit].n);
    return (struct halo_str){text, n * units[unit].n};
}

static struct halo_id pick_id(struct source *s, int64_t hi)
{
    return choose(s, 2) ? halo_id_of(pick_i64(s, INT64_MIN, INT64_MAX)) : halo_id_of_str(pick_str(s, 1, hi));
}

static struct halo_str_list pick_strs(struct source *s, int64_t lo, int64_t hi, int64_t bytes)
{
    size_t n = choose_count(s, (uint64_t)lo, (uint64_t)hi, sizeof(struct halo_str));
    struct halo_str *items = take(s, n * sizeof(*items));
    struct halo_str some = pick_str(s, 0, bytes);
    for (size_t i = 0; i < n; i++)
        items[i] = i < 4 ? pick_str(s, 0, bytes) : some.len < 64 ? some : halo_str_of("z");
    return (struct halo_str_list){items, n};
}

static struct halo_token_list pick_toks(struct source *s, int64_t lo, int64_t hi)
{
    size_t n = choose_count(s, (uint64_t)lo, (uint64_t)hi, sizeof(int32_t));
    int32_t *ids = take(s, n * sizeof(*ids)), some = (int32_t)pick_i64(s, 0, INT32_MAX);
    for (size_t i = 0; i < n; i++)
        ids[i] = some;
    return (struct halo_token_list){ids, n};
}

static struct halo_top_list pick_tops(struct source *s, int64_t lo, int64_t hi)
{
    size_t n = choose_count(s, (uint64_t)lo, (uint64_t)hi, sizeof(struct halo_top));
    struct halo_top *tops = take(s, n * sizeof(*tops));
    for (size_t i = 0; i < n; i++)
        tops[i] = (struct halo_top){(int32_t)pick_i64(s, 0, INT32_MAX), pick_f64(s, -1e300, 1e300)};
    return (struct halo_top_list){tops, n};
}

/* JSON text: deep, wide, of many fields, or small. */
static struct halo_raw pick_json(struct source *s, bool array)
{
    static const char *const small[] = {"{}", "{\"a\":1.5}", "{ \"\\u0000\" : [\n] }",
                                        "{\"b\":{\"c\":[null,true,-0.0]}}"};
    unsigned kind = choose(s, 5);
    size_t n = choose_count(s, 0, kind == 1 ? HALO_LIMIT_DEPTH + 1 : UINT32_MAX, 16), at = 0;
    if (kind == 0)
        return halo_raw_of(array ? "[]" : small[choose(s, 4) == 2 ? 3 : choose(s, 2)]);
    char *text = take(s, 32 + 16 * n);
    at += (size_t)sprintf(text, array ? "[" : "{\"k\":%s", kind == 1 ? "" : "[");
    if (kind == 1) {
        for (size_t i = 0; i < n; i++)
            text[at++] = '[';
        for (size_t i = 0; i < n; i++)
            text[at++] = ']';
        if (n == 0)
            at += (size_t)sprintf(text + at, "0");
    }
    for (size_t i = 0; kind != 1 && i < n; i++)
        at += (size_t)sprintf(text + at, "%s%s", i ? "," : "", kind == 2 ? "{}" : kind == 3 ? "{\"q\":7}" : "-1e300");
    at += (size_t)sprintf(text + at, array ? "]" : kind == 1 ? "}" : "]}");
    return (struct halo_raw){text, at};
}

/* Macros that make a part of a table or a type. */
/* clang-format off */
#define PICK_ID(out, lo, hi, dflt, ref) out = pick_id(s, hi)
#define PICK_BOOL(out, lo, hi, dflt, ref) out = choose(s, 2)
#define PICK_I64(out, lo, hi, dflt, ref) out = pick_i64(s, lo, hi)
#define PICK_F64(out, lo, hi, dflt, ref) out = pick_f64(s, lo, hi)
#define PICK_STR(out, lo, hi, dflt, ref) out = pick_str(s, lo, hi)
#define PICK_WORD(out, lo, hi, dflt, ref) out = (enum halo_##ref)(FIRST_##ref + choose(s, N_##ref - FIRST_##ref))
#define PICK_STRS(out, lo, hi, dflt, ref) out = pick_strs(s, lo, hi, dflt)
#define PICK_TOKS(out, lo, hi, dflt, ref) out = pick_toks(s, lo, hi)
#define PICK_TOPS(out, lo, hi, dflt, ref) out = pick_tops(s, lo, hi)
#define PICK_OBJ(out, lo, hi, dflt, ref) pick_part_##ref(s, &(out))
#define PICK_OBJS(out, lo, hi, dflt, ref)                                                                             \
    do {                                                                                                              \
        size_t n = choose_count(s, lo, hi, sizeof(*(out).at));                                                        \
        struct halo_part_##ref *items = take(s, n * sizeof(*items));                                                  \
        for (size_t i = 0; i < n; i++) {                                                                              \
            size_t left = s->left;                                                                                    \
            if (i < 3)                                                                                                \
                pick_part_##ref(s, &items[i]);                                                                        \
            else                                                                                                      \
                items[i] = items[2];                                                                                  \
            if (i == 2)                                                                                               \
                n = spend_copies(s, n, left - s->left);                                                               \
        }                                                                                                             \
        (out).at = items;                                                                                             \
        (out).n = n;                                                                                                  \
    } while (0)
#define PICK_BIAS(out, lo, hi, dflt, ref) (void)s /* of requests, as the next one */
#define PICK_VOID(out, lo, hi, dflt, ref) (void)s
#define PICK_CONT(out, lo, hi, dflt, ref) (void)s
#define IS_ARRAY_any false
#define IS_ARRAY_object false
#define IS_ARRAY_array true
#define IS_ARRAY_objects true
#define IS_ARRAY_call false
#define PICK_JSON(out, lo, hi, dflt, ref) out = pick_json(s, IS_ARRAY_##ref)

#define WORDS(set, ID) enum { FIRST_##set = 0, COUNT_##set = -1
#define WORD(set, ID, text) , AFTER_##ID
#define WORDS_END(set) , N_##set };
#include <protocol/message.def>
enum { FIRST_error = 1, N_error = HALO_N_ERRORS };

#define HAS_REQ(name)
#define HAS_DEF(name)
#define HAS_OPT(name) here->has_##name = choose(s, 2);
#define HAS_NUL(name) here->has_##name = choose(s, 2);
#define HAS_LINK(name) here->has_##name = false;

#define PART(name, nulls)                                                                                             \
    __attribute__((unused)) static void pick_part_##name(struct source *s, struct halo_part_##name *here)             \
    {
#define PART_END(name) }
#define EVENT(ID, name, wire, terminal, doc)                                                                          \
    static void pick_ev_##name(struct source *s, struct halo_ev_##name *here)                                         \
    {
#define EVENT_END(name) }
#define REQUEST(ID, name, wire, from, id, reply, doc)                                                                 \
    __attribute__((unused)) static void pick_msg_##name(struct source *s, struct halo_msg_##name *here)               \
    {
#define REQUEST_END(name) }
#define F(kind, presence, name, lo, hi, dflt, ref, doc)                                                               \
    PICK_##kind(here->name, lo, hi, dflt, ref);                                                                       \
    HAS_##presence(name)
#include <protocol/message.def>

static void pick_event(struct source *s, struct halo_ev *ev)
{
    struct halo_id id = choose(s, 3) ? pick_id(s, HALO_LIMIT_ID_BYTES) : (struct halo_id){HALO_ID_NONE, 0, {NULL, 0}};
    halo_ev_init(ev, (enum halo_ev_type)choose(s, HALO_N_EVS), &id);
    switch (ev->type) {
#define EVENT(ID, name, wire, terminal, doc)                                                                          \
    case HALO_EV_##ID: pick_ev_##name(s, &ev->name); break;
#include <protocol/message.def>
    default: break;
    }
    if (ev->type == HALO_EV_ERROR && *halo_error_numbers(ev->error.code)) { /* by its rule it has one of them */
        int n = (int)strcspn(halo_error_numbers(ev->error.code), " ");
        char *detail = take(s, 64);
        snprintf(detail, 64, "{\"%.*s\":%u}", n, halo_error_numbers(ev->error.code), choose(s, 256));
        ev->error.has_detail = true;
        ev->error.detail = halo_raw_of(detail);
    }
}
/* clang-format on */

/* ---- the way of an event ---- */

static void decode(struct halo_ev *ev, const char *line, size_t len, const struct halo_ev *sent)
{
    struct halo_refusal refusal;
    if (halo_ev_decode(ev, line, len, HALO_EV_STRICT, &refusal) != 0) {
        fprintf(stderr, "%s: %s\n", halo_ev_type_name(sent->type), refusal.message);
        abort();
    }
    assert(ev->type == sent->type);
}

/* As halod passes it on: under the id of the client, else unchanged. */
static void pass_on(const char *line, size_t len, const struct halo_ev *sent)
{
    static const char id_text[] = "\x01\x01\x01\x01\"\xC3\xA9 the id of the client";
    const struct halo_id id = halo_id_of_str(halo_str_of(id_text));
    struct halo_envelope env;
    struct halo_json w;
    struct halo_ev ev;
    if (halo_envelope_scan(line, len, &env) != 0)
        abort();
    assert(halo_ev_type_from_name(line + env.type.at, env.type.len) >= 0);
    halo_json_init(&w);
    if (halo_envelope_rewrite(&w, line, &env, &id) < 0)
        abort();
    decode(&ev, w.at, w.len - 1, sent);
    assert(halo_id_equal(&ev.id, &id));
    halo_ev_finish(&ev);
    halo_json_finish(&w);
}

/* What was read, written and read again: the same. Not always what was sent: an optional number that is none comes as
 * absent, JSON text loses its spaces, and a number in it may be spelled longer. */
static void compare(const struct halo_ev *ev)
{
    struct halo_json once, twice;
    struct halo_ev copy;
    halo_json_init(&once);
    halo_json_init(&twice);
    int r = halo_ev_encode(&once, ev);
    assert(r == 0 || r == -EMSGSIZE);
    if (r == 0) {
        decode(&copy, once.at, once.len - 1, ev);
        if (halo_ev_encode(&twice, &copy) < 0)
            abort();
        assert(once.len == twice.len && memcmp(once.at, twice.at, once.len) == 0);
        halo_ev_finish(&copy);
    }
    halo_json_finish(&once);
    halo_json_finish(&twice);
}

static void receive(const struct halo_json *text, const struct halo_ev *sent)
{
    struct halo_line_reader reader;
    struct halo_ev ev;
    const char *line;
    size_t len;
    halo_line_init(&reader, HALO_LIMIT_ANSWER_BYTES);
    if (halo_line_feed(&reader, text->at, text->len) < 0 || halo_line_next(&reader, &line, &len) != 0)
        abort();
    pass_on(line, len, sent);
    decode(&ev, line, len, sent);
    compare(&ev);
    halo_ev_finish(&ev);
    halo_line_finish(&reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct source source;
    struct halo_refusal refusal;
    struct halo_json w;
    struct halo_ev ev;
    source = (struct source){.data = data, .size = size};
    source.left = choose(&source, 256) == 255 ? HUGE_BYTES : SMALL_BYTES;
    pick_event(&source, &ev);
    if (halo_ev_check(&ev, &refusal) != 0) {
        fprintf(stderr, "not within its own ranges: %s\n", refusal.message);
        abort();
    }
    halo_json_init(&w);
    int r = halo_ev_encode(&w, &ev);
    assert(r == 0 || (r == -EMSGSIZE && w.len == 0));
    if (r == 0)
        receive(&w, &ev);
    halo_json_finish(&w);
    release(&source);
    return 0;
}
