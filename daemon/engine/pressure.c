/* pressure.c: see pressure.h. */
#include <engine/pressure.h>

#include <assert.h>

#include <base/state.h>

#include <engine/budget.h>

#define SOME_HIGH 10.0 /* percent */
#define FULL_HIGH 5.0
#define FULL_SEVERE 20.0
#define SOME_LOW 5.0
#define FULL_LOW 2.0

const struct halo_pressure_rules halo_pressure_rules_default = {
    .sample_ns = 1000000000u,
    .rise_ns = 2000000000u,
    .ease_ns = 10000000000u,
    .grow_ns = 5000000000u,
};

#define BIT(level) HALO_STATE_BIT(HALO_PRESSURE_##level)
static const unsigned moves[HALO_PRESSURE_LEVELS] = {
    [HALO_PRESSURE_CALM] = BIT(SHRINK),
    [HALO_PRESSURE_SHRINK] = BIT(CALM) | BIT(NO_GUESSES),
    [HALO_PRESSURE_NO_GUESSES] = BIT(SHRINK) | BIT(NO_LOADS),
    [HALO_PRESSURE_NO_LOADS] = BIT(NO_GUESSES),
};

static const char *const names[HALO_PRESSURE_LEVELS] = {
    [HALO_PRESSURE_CALM] = "calm",
    [HALO_PRESSURE_SHRINK] = "shrink",
    [HALO_PRESSURE_NO_GUESSES] = "no_guesses",
    [HALO_PRESSURE_NO_LOADS] = "no_loads",
};

const char *halo_pressure_level_name(enum halo_pressure_level level)
{
    assert((unsigned)level < HALO_PRESSURE_LEVELS);
    return names[level];
}

void halo_pressure_init(struct halo_pressure *p, const struct halo_pressure_rules *rules)
{
    *p = (struct halo_pressure){.rules = *rules};
}

static void move(struct halo_pressure *p, enum halo_pressure_level to, uint64_t now_ns,
                 struct halo_pressure_actions *ret)
{
    p->level = (enum halo_pressure_level)halo_state_move(moves, p->level, to);
    p->moved_ns = now_ns;
    ret->has_moved = true;
}

static bool is_short(const struct halo_pressure_sample *s)
{
    return s->available_bytes < halo_budget_reserve(s->total_bytes) / 2;
}

static bool is_scarce(const struct halo_pressure_sample *s)
{
    return s->some >= SOME_HIGH || s->full >= FULL_HIGH || s->is_triggered;
}

static bool is_calm(const struct halo_pressure_sample *s)
{
    return s->available_bytes >= halo_budget_reserve(s->total_bytes) && s->some < SOME_LOW && s->full < FULL_LOW;
}

static void rise(struct halo_pressure *p, const struct halo_pressure_sample *s, struct halo_pressure_actions *ret)
{
    bool is_severe = is_short(s) || s->full >= FULL_SEVERE;
    enum halo_pressure_level most = is_severe ? HALO_PRESSURE_NO_LOADS : HALO_PRESSURE_NO_GUESSES;
    if (p->level < most && (p->level == HALO_PRESSURE_CALM || s->now_ns - p->moved_ns >= p->rules.rise_ns))
        move(p, (enum halo_pressure_level)(p->level + 1), s->now_ns, ret);
    if (is_short(s))
        ret->give_bytes = halo_budget_reserve(s->total_bytes) - s->available_bytes;
    else if (p->given_ns == 0 || s->now_ns - p->given_ns >= p->rules.rise_ns)
        ret->give_bytes = 1; /* averages lag behind: a slab, then time to see whether that was enough */
    if (ret->give_bytes > 0)
        p->given_ns = s->now_ns;
}

static void ease(struct halo_pressure *p, const struct halo_pressure_sample *s, struct halo_pressure_actions *ret)
{
    uint64_t since_ns = p->calm_ns > p->moved_ns ? p->calm_ns : p->moved_ns;
    if (p->level == HALO_PRESSURE_CALM) {
        ret->may_grow = s->now_ns - since_ns >= p->rules.ease_ns &&
                        (p->grown_ns < since_ns || s->now_ns - p->grown_ns >= p->rules.grow_ns);
        p->grown_ns = ret->may_grow ? s->now_ns : p->grown_ns;
    } else if (s->now_ns - since_ns >= p->rules.ease_ns) {
        move(p, (enum halo_pressure_level)(p->level - 1), s->now_ns, ret);
    }
}

void halo_pressure_step(struct halo_pressure *p, const struct halo_pressure_sample *s,
                        struct halo_pressure_actions *ret)
{
    *ret = (struct halo_pressure_actions){0};
    bool calm = is_calm(s) && !is_scarce(s);
    p->calm_ns = !calm ? 0 : p->calm_ns > 0 ? p->calm_ns : s->now_ns;
    if (is_short(s) || is_scarce(s))
        rise(p, s, ret);
    else if (calm)
        ease(p, s, ret);
}
