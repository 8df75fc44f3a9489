/* bench_jinja.c: how long a chat template takes: compiling it, and rendering conversations of many turns.
 *
 * usage: bench_jinja TEMPLATE.jinja [turns [repeats]]
 *
 * The conversation is a system message, then user and assistant messages in turn (200 characters each; a turn is both),
 * then a user message. Building the messages is part of each rendering, as it is for the engine. Figures are the median
 * and the best of the repeats. bench_jinja.sh puts the reference's time beside them.
 */
#include <base/clock.h>
#include <model/jinja.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(HALO_JINJA_MAX_BYTES);
    if (!file || !bytes) {
        fprintf(stderr, "bench_jinja: %s can not be read\n", path);
        exit(1);
    }
    *ret_n = fread(bytes, 1, HALO_JINJA_MAX_BYTES, file);
    fclose(file);
    return bytes;
}

static void check(int r, const struct halo_fault *fault)
{
    if (r == 0)
        return;
    fprintf(stderr, "bench_jinja: %s\n", fault->text);
    exit(1);
}

static void add_message(struct halo_arena *arena, struct halo_jinja_value list, const char *role, const char *content)
{
    struct halo_jinja_value message, text;
    int r = halo_jinja_dict(arena, &message) | halo_jinja_string(arena, &text, role, strlen(role));
    r |= halo_jinja_dict_put(arena, message, "role", 4, text);
    r |= halo_jinja_string(arena, &text, content, strlen(content));
    r |= halo_jinja_dict_put(arena, message, "content", 7, text);
    r |= halo_jinja_list_push(arena, list, message);
    if (r)
        abort();
}

/* Bytes of one rendering. */
static size_t render(const struct halo_jinja *jinja, long turns, const char *content)
{
    struct halo_arena arena;
    struct halo_jinja_value messages, bos, eos;
    struct halo_chat_text text;
    struct halo_fault fault = {0};
    size_t n = 0;
    halo_arena_init(&arena, 0);
    if (halo_jinja_list(&arena, &messages) || halo_jinja_string_template(&arena, &bos, "<bos>", 5) ||
        halo_jinja_string_template(&arena, &eos, "<eos>", 5))
        abort();
    add_message(&arena, messages, "system", content);
    for (long i = 0; i < turns; i++) {
        add_message(&arena, messages, "user", content);
        add_message(&arena, messages, "assistant", content);
    }
    add_message(&arena, messages, "user", content);
    const struct halo_jinja_var vars[] = {
        {"messages", messages},       {"add_generation_prompt", halo_jinja_bool(true)},
        {"tools", halo_jinja_none()}, {"documents", halo_jinja_none()},
        {"bos_token", bos},           {"eos_token", eos}};
    const struct halo_jinja_params params = {.vars = vars, .n_vars = sizeof vars / sizeof *vars};
    check(halo_jinja_render(jinja, &params, &arena, &text, &fault), &fault);
    for (size_t i = 0; i < text.n; i++)
        n += text.spans[i].n;
    halo_arena_finish(&arena);
    return n;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    char content[201];
    size_t n, n_out = 0;
    struct halo_jinja *jinja;
    struct halo_fault fault = {0};
    long turns = argc > 2 ? atol(argv[2]) : 200, repeats = argc > 3 ? atol(argv[3]) : 25;
    if (argc < 2 || turns < 1 || repeats < 1 || repeats > 10000) {
        fprintf(stderr, "usage: bench_jinja TEMPLATE.jinja [turns [repeats]]\n");
        return 2;
    }
    char *text = read_file(argv[1], &n);
    for (size_t i = 0; i < sizeof content - 1; i++)
        content[i] = "the quick brown fox jumps over a lazy dog. "[i % 43];
    content[sizeof content - 1] = 0;
    uint64_t start = halo_clock_ns();
    check(halo_jinja_compile(&jinja, text, n, &fault), &fault);
    uint64_t compile_ns = halo_clock_ns() - start, *times = calloc((size_t)repeats, sizeof *times);
    for (long i = 0; times && i < repeats; i++) {
        start = halo_clock_ns();
        n_out = render(jinja, turns, content);
        times[i] = halo_clock_ns() - start;
    }
    if (!times)
        abort();
    qsort(times, (size_t)repeats, sizeof *times, by_size);
    printf("%zu bytes of template: compiled in %.3f ms; %ld turns: %zu bytes in %.3f ms (best %.3f ms)\n", n,
           (double)compile_ns / 1e6, turns, n_out, (double)times[repeats / 2] / 1e6, (double)times[0] / 1e6);
    free(times);
    free(text);
    halo_jinja_destroy(jinja);
    return 0;
}
