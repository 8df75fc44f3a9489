/* methods_character.c: Python's methods of str that ask what its characters are.
 *
 * Fails as a run does (jinja_priv.h).
 */
#include "jinja_priv.h"

#define METHOD(name)                                                                                                   \
    static int name(struct halo_jinja_run *run, const struct halo_jinja_call *call, struct halo_jinja_value *ret)

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

/* By the op of a method: every character is this, and whether an empty string counts. */
static const struct {
    bool (*is)(uint32_t c);
    bool empty;
} questions[] = {
    ['a'] = {halo_jinja_is_alpha, false},    ['n'] = {halo_jinja_is_alnum, false},
    ['c'] = {halo_jinja_is_decimal, false},  ['d'] = {halo_jinja_is_digit, false},
    ['m'] = {halo_jinja_is_numeric, false},  ['s'] = {halo_jinja_is_space, false},
    ['p'] = {halo_jinja_is_printable, true}, ['7'] = {is_ascii, true},
};

METHOD(every_character)
{
    const struct halo_jinja_string *s = call->self.string;
    int op = call->native->op;
    bool holds = s->n > 0 || questions[op].empty;
    for (size_t at = 0, n; holds && at < s->n; at += n)
        holds = questions[op].is(halo_jinja_char(s->bytes + at, s->n - at, &n));
    *ret = halo_jinja_own_bool(holds);
    return halo_jinja_steps(run, s->n / 16);
}

/* islower, isupper (op 'l', 'u'): there is a letter with case, and all of them have that one. */
METHOD(one_case)
{
    const struct halo_jinja_string *s = call->self.string;
    *ret = halo_jinja_own_bool(halo_jinja_has_case(s, call->native->op));
    return halo_jinja_steps(run, s->n / 16);
}

/* Upper case begins each word, lower case goes on, and there is a word. */
METHOD(title_case)
{
    const struct halo_jinja_string *s = call->self.string;
    bool holds = true, in_word = false, any = false;
    for (size_t at = 0, n; at < s->n; at += n) {
        uint32_t c = halo_jinja_char(s->bytes + at, s->n - at, &n);
        bool upper = halo_jinja_is_upper(c) || halo_jinja_is_title(c), lower = halo_jinja_is_lower(c);
        holds &= upper ? !in_word : !lower || in_word;
        in_word = upper || lower;
        any |= in_word;
    }
    *ret = halo_jinja_own_bool(holds && any);
    return halo_jinja_steps(run, s->n / 16);
}

METHOD(identifier)
{
    const struct halo_jinja_string *s = call->self.string;
    bool holds = s->n > 0;
    for (size_t at = 0, n; holds && at < s->n; at += n) {
        uint32_t c = halo_jinja_char(s->bytes + at, s->n - at, &n);
        holds = at ? halo_jinja_continues_name(c) : halo_jinja_begins_name(c);
    }
    *ret = halo_jinja_own_bool(holds);
    return halo_jinja_steps(run, s->n / 16);
}

const struct halo_jinja_native halo_jinja_character_methods[] = {
    {.name = "isalnum", .call = every_character, .op = 'n'},
    {.name = "isalpha", .call = every_character, .op = 'a'},
    {.name = "isascii", .call = every_character, .op = '7'},
    {.name = "isdecimal", .call = every_character, .op = 'c'},
    {.name = "isdigit", .call = every_character, .op = 'd'},
    {.name = "isidentifier", .call = identifier},
    {.name = "islower", .call = one_case, .op = 'l'},
    {.name = "isnumeric", .call = every_character, .op = 'm'},
    {.name = "isprintable", .call = every_character, .op = 'p'},
    {.name = "isspace", .call = every_character, .op = 's'},
    {.name = "istitle", .call = title_case},
    {.name = "isupper", .call = one_case, .op = 'u'},
};
const size_t halo_jinja_n_character_methods =
    sizeof(halo_jinja_character_methods) / sizeof(halo_jinja_character_methods[0]);
