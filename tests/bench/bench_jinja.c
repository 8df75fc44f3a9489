/* bench_jinja.c: how long a chat template takes: compiling it, and rendering conversations of many turns.
 *
 * usage: bench_jinja TEMPLATE.jinja [turns [repeats]]
 *
 * The conversation is a system message, then user and assistant messages in turn (200 characters each; a turn is both),
 * then a user message. Reading the messages from JSON is part of each rendering, and memory is kept from one to the
 * next, as the engine does it. Figures are the median and the best of the repeats, and the median of CPU time, which a
 * busy machine disturbs less. bench_jinja.sh puts the reference's time beside them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <base/clock.h>
#include <jinja/jinja.h>

static char *read_file(const char *path, size_t *ret_n)
{
    FILE *file = fopen(path, "rb");
    char *bytes = malloc(HALO_JINJA_MAX_BYTES);
    if (!file || !bytes) {
        fprintf(stderr, "bench_jinja: %s cannot be read\n", path);
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

/* The conversation as the engine gets it: JSON. */
static char *make_json(long turns, const char *content)
{
    size_t room = (2 * (size_t)turns + 2) * (strlen(content) + 64), n = 0;
    char *json = malloc(room);
    if (!json)
        abort();
    for (long i = 0; i < 2 * turns + 2; i++)
        n += (size_t)snprintf(json + n, room - n, "%s{\"role\":\"%s\",\"content\":\"%s\"}", i ? "," : "[",
                              i == 0  ? "system"
                              : i % 2 ? "user"
                                      : "assistant",
                              content);
    strcpy(json + n, "]");
    return json;
}

/* Bytes of one rendering. */
static size_t render(const struct halo_jinja *jinja, const char *json, struct halo_arena *arena,
                     struct halo_arena *scratch)
{
    struct halo_jinja_value messages, bos, eos;
    struct halo_chat_text text;
    struct halo_fault fault = {0};
    size_t n = 0;
    if (halo_jinja_string_template(arena, &bos, "<bos>", 5) || halo_jinja_string_template(arena, &eos, "<eos>", 5))
        abort();
    check(halo_jinja_json(arena, &messages, json, strlen(json), &fault), &fault);
    const struct halo_jinja_var vars[] = {
        {"messages", messages},       {"add_generation_prompt", halo_jinja_bool(true)},
        {"tools", halo_jinja_none()}, {"documents", halo_jinja_none()},
        {"bos_token", bos},           {"eos_token", eos}};
    const struct halo_jinja_params params = {.vars = vars, .n_vars = sizeof vars / sizeof *vars, .scratch = scratch};
    check(halo_jinja_render(jinja, &params, arena, &text, &fault), &fault);
    for (size_t i = 0; i < text.n; i++)
        n += text.spans[i].n;
    halo_arena_reset(arena, (size_t)8 << 20);
    return n;
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
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
    uint64_t *cpu_times = calloc((size_t)repeats, sizeof *times);
    struct halo_arena arena, scratch;
    if (!times || !cpu_times)
        abort();
    halo_arena_init(&arena, 0);
    halo_arena_init(&scratch, 0);
    char *json = make_json(turns, content);
    for (long i = 0; i < repeats; i++) {
        uint64_t cpu_start = cpu_ns();
        start = halo_clock_ns();
        n_out = render(jinja, json, &arena, &scratch);
        times[i] = halo_clock_ns() - start;
        cpu_times[i] = cpu_ns() - cpu_start;
    }
    qsort(times, (size_t)repeats, sizeof *times, by_size);
    qsort(cpu_times, (size_t)repeats, sizeof *cpu_times, by_size);
    printf("%zu bytes of template: compiled in %.3f ms; %ld turns: %zu bytes in %.3f ms (best %.3f ms, of the "
           "CPU %.3f ms)\n",
           n, (double)compile_ns / 1e6, turns, n_out, (double)times[repeats / 2] / 1e6, (double)times[0] / 1e6,
           (double)cpu_times[repeats / 2] / 1e6);
    halo_arena_finish(&arena);
    halo_arena_finish(&scratch);
    free(json);
    free(cpu_times);
    free(times);
    free(text);
    halo_jinja_destroy(jinja);
    return 0;
}
