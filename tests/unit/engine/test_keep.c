/* test_keep.c: cached prefixes outlive the engine: saved, brought back bit for bit, and every file that is not just
 * right is left alone, aloud.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include <base/hash.h>
#include <cpu/cpu.h>
#include <engine/prefix_image.h>

#include "child.h"

#define N_PROMPT 70
#define N_REPLY 20
#define N_PAGES 3 /* of the 89 positions that are filled: two whole ones and a rest */
#define MODEL "\"model\":\"fable-Q4_K_M\""

static char dir[] = "/tmp/halo-test-keep-XXXXXX";
static char prompt[4096];
static int64_t next_id;

static void begin(struct child *c, bool with_dir)
{
    child_state_dir = with_dir ? dir : NULL;
    next_id = 0;
    child_start(c, true, NULL);
}

static struct child_request *load(struct child *c, const char *kv)
{
    child_send(c,
               "{\"type\":\"load\",\"id\":%lld," MODEL ",\"params\":{\"context\":512,\"kv_tokens\":2048,"
               "\"kv\":\"%s\"}}",
               (long long)++next_id, kv);
    struct child_request *request = child_wait(c, next_id);
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("%s", request->last);
    return request;
}

static struct child_request *generate(struct child *c, const char *ids, int user)
{
    child_send(c,
               "{\"type\":\"generate\",\"id\":%lld," MODEL ",\"tokens\":[%s],\"max_tokens\":20,\"ignore_eos\":true,"
               "\"seed\":7,\"emit_token_ids\":true,\"user\":%d}",
               (long long)++next_id, ids, user);
    struct child_request *request = child_wait(c, next_id);
    assert_int_equal(request->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(request->n_ids, N_REPLY);
    return request;
}

static long save(struct child *c, int deadline_ms)
{
    child_send(c, "{\"type\":\"save\",\"id\":%lld,\"deadline_ms\":%d}", (long long)++next_id, deadline_ms);
    struct child_request *request = child_wait(c, next_id);
    if (request->terminal != HALO_EV_SAVED)
        fail_msg("%s", request->last);
    return child_number(request, "pages");
}

static void reset(struct child *c)
{
    child_send(c, "{\"type\":\"reset\",\"id\":%lld," MODEL "}", (long long)++next_id);
    assert_int_equal(child_wait(c, next_id)->terminal, HALO_EV_RESET);
}

/* The one file; false: there is none. Anything else in the folder fails. */
static bool find_file(char path[512])
{
    char folder[128];
    int n = 0;
    snprintf(folder, sizeof(folder), "%s/prefixes", dir);
    DIR *stream = opendir(folder);
    for (struct dirent *entry; stream && (entry = readdir(stream));)
        if (entry->d_name[0] != '.') {
            snprintf(path, 512, "%s/%s", folder, entry->d_name);
            assert_non_null(strstr(path, ".prefixes"));
            n++;
        }
    if (stream)
        closedir(stream);
    assert_true(n <= 1);
    return n == 1;
}

static void remove_file(void)
{
    char path[512];
    if (find_file(path))
        assert_int_equal(unlink(path), 0);
}

/* ---- what comes back ---- */

static void it_comes_back_bit_for_bit(void **state)
{
    static const char *const kinds[] = {"f32", "f16", "q8"};
    char path[512], longer[8192];
    child_device = halo_device_cpu();
    for (int k = 0; k < 3; k++) {
        struct child c, alone;
        begin(&c, true);
        assert_int_equal(child_number(load(&c, kinds[k]), "prefix_pages"), 0);
        int32_t first[N_REPLY];
        memcpy(first, generate(&c, prompt, 5)->ids, sizeof(first));
        assert_int_equal(save(&c, 30000), N_PAGES);
        struct stat facts;
        assert_true(find_file(path) && stat(path, &facts) == 0);
        assert_int_equal(facts.st_mode & 0777, 0600);
        assert_int_equal(child_end(&c), 0);

        begin(&c, true);
        assert_int_equal(child_number(load(&c, kinds[k]), "prefix_pages"), N_PAGES);
        assert_false(find_file(path)); /* a reset must not be undone by it */
        snprintf(longer, sizeof(longer), "%s", prompt);
        for (int i = 0; i < N_REPLY - 2; i++)
            snprintf(longer + strlen(longer), 16, ",%d", first[i]);
        strcat(longer, ",9,8,7");
        begin(&alone, false);
        load(&alone, kinds[k]);
        next_id = 50;
        struct child_request *have = generate(&c, longer, 5);
        assert_int_equal(child_number(have, "cached_tokens"), N_PROMPT + N_REPLY - 2);
        struct child_request *want = generate(&alone, longer, 5);
        assert_int_equal(child_number(want, "cached_tokens"), 0);
        assert_memory_equal(have->ids, want->ids, sizeof(first));
        have = generate(&c, prompt, 5);
        assert_int_equal(child_number(have, "cached_tokens"), N_PROMPT - 1);
        assert_memory_equal(have->ids, first, sizeof(first));
        assert_int_equal(child_number(generate(&c, prompt, 6), "cached_tokens"), 0); /* another user's */
        child_send(&c, "{\"type\":\"status\",\"id\":90}");
        assert_non_null(strstr(child_wait(&c, 90)->last, "\"prefix_pages_restored\":3}"));
        assert_int_equal(child_end(&c), 0);
        assert_int_equal(child_end(&alone), 0);
    }
    child_device = NULL;
}

/* Those used last are saved first, and go last when they are back. */
static void as_much_as_may_be_in_order_of_use(void **state)
{
    struct child c;
    char texts[4][256];
    uint64_t record;
    for (int t = 0; t < 4; t++) {
        texts[t][0] = '\0';
        for (int i = 0; i < 33; i++)
            snprintf(texts[t] + strlen(texts[t]), 8, "%s%d", i ? "," : "", 100 * (t + 1) + i);
    }
    struct halo_prefix_key key = {.n_groups = 1, .page_bytes = {32 * sizeof(int32_t)}}; /* of the scripted device */
    record = halo_prefix_record_bytes(&key, 1);
    child_save_bytes = HALO_PREFIX_HEADER_BYTES + 5 * record + 3;
    begin(&c, true);
    load(&c, "f16");
    for (int t = 0; t < 4; t++)
        generate(&c, texts[t], 1);
    generate(&c, texts[1], 1);
    assert_int_equal(save(&c, 0), 0); /* no time */
    char path[512];
    assert_false(find_file(path));
    assert_int_equal(save(&c, 30000), 5);
    assert_int_equal(child_end(&c), 0);
    begin(&c, true);
    assert_int_equal(child_number(load(&c, "f16"), "prefix_pages"), 5); /* three of the one, two of the next */
    assert_int_equal(child_number(generate(&c, texts[1], 1), "cached_tokens"), 32);
    assert_int_equal(child_number(generate(&c, texts[3], 1), "cached_tokens"), 32);
    assert_int_equal(child_number(generate(&c, texts[0], 1), "cached_tokens"), 0);
    reset(&c);
    assert_int_equal(save(&c, 30000), 0); /* what was forgotten is not saved */
    assert_int_equal(child_end(&c), 0);
    assert_false(find_file(path));
    child_save_bytes = 64u << 20;
}

/* What is given up for others, and that nothing is held when nothing runs, is in the statistics. */
static void evictions_are_counted(void **state)
{
    struct child c;
    begin(&c, false);
    child_send(&c, "{\"type\":\"load\",\"id\":1," MODEL ",\"params\":{\"context\":512,\"kv_tokens\":512}}");
    assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_LOADED);
    next_id = 1;
    for (int user = 1; user <= 6; user++) /* 3 pages each, of 16 */
        generate(&c, prompt, user);
    struct child_request *stats = child_stats_at_rest(&c, &next_id);
    assert_int_equal(child_number(stats, "prefix_evictions"), 2);
    assert_non_null(strstr(stats->last, "\"now_requests\":0,\"now_sequences\":0,\"now_kv_pages_held\":0}"));
    atomic_store(&c.control->run_us, 5000);
    child_send(&c, "{\"type\":\"generate\",\"id\":600," MODEL ",\"tokens\":[5],\"ignore_eos\":true}");
    while (c.requests[600].n_started == 0)
        child_read(&c, 100);
    child_send(&c, "{\"type\":\"stats\",\"id\":601}");
    assert_non_null(strstr(child_wait(&c, 601)->last, "\"now_requests\":1,\"now_sequences\":1,"));
    assert_int_equal(child_end(&c), 0);
}

static void a_save_beside_requests(void **state)
{
    struct child c;
    begin(&c, true);
    load(&c, "f16");
    generate(&c, prompt, 1);
    atomic_store(&c.control->run_us, 1000);
    child_send(&c,
               "{\"type\":\"generate\",\"id\":500," MODEL ",\"tokens\":[%s],\"max_tokens\":200,\"ignore_eos\":true,"
               "\"emit_token_ids\":true,"
               "\"user\":1}",
               prompt);
    child_send(&c, "{\"type\":\"save\",\"id\":501,\"deadline_ms\":20000}");
    child_send(&c, "{\"type\":\"save\",\"id\":502,\"deadline_ms\":20000}");
    child_send(&c, "{\"type\":\"unload\",\"id\":503," MODEL "}");
    assert_int_equal(child_wait(&c, 502)->error, HALO_ERROR_QUEUE_FULL);
    assert_int_equal(child_wait(&c, 501)->terminal, HALO_EV_SAVED);
    assert_true(child_number(&c.requests[501], "pages") >= 2);
    assert_int_equal(child_wait(&c, 500)->finish, HALO_WIRE_FINISH_LENGTH);
    assert_int_equal(c.requests[500].n_ids, 200);
    assert_int_equal(child_wait(&c, 503)->terminal, HALO_EV_UNLOADED);
    assert_true(child_number(load(&c, "f16"), "prefix_pages") >= 2); /* a model that comes again has them too */
    assert_int_equal(child_end(&c), 0);
    begin(&c, false);
    child_send(&c, "{\"type\":\"save\",\"id\":501,\"deadline_ms\":20000}");
    assert_int_equal(child_wait(&c, 501)->error, HALO_ERROR_UNSUPPORTED);
    assert_int_equal(child_end(&c), 0);
}

/* A device that fails in between costs the prefixes. */
static void pages_that_cannot_be_read(void **state)
{
    struct child c;
    char path[512];
    begin(&c, true);
    load(&c, "f16");
    generate(&c, prompt, 1);
    c.control->copy_error = -22;
    child_send(&c, "{\"type\":\"save\",\"id\":501,\"deadline_ms\":20000}");
    assert_non_null(strstr(child_wait(&c, 501)->last, "\"faults\":[\"prefixes of fable-Q4_K_M are not saved"));
    assert_false(find_file(path));
    c.control->copy_error = 0;
    assert_int_equal(save(&c, 20000), N_PAGES);
    child_send(&c, "{\"type\":\"unload\",\"id\":502," MODEL "}");
    assert_int_equal(child_wait(&c, 502)->terminal, HALO_EV_UNLOADED);
    c.control->copy_error = -22;
    struct child_request *loaded = load(&c, "f16");
    assert_non_null(strstr(loaded->notice, "prefixes_ignored"));
    assert_int_equal(child_number(loaded, "prefix_pages"), 0);
    c.control->copy_error = 0;
    assert_int_equal(child_number(generate(&c, prompt, 1), "cached_tokens"), 0);
    assert_int_equal(child_end(&c), 0);
}

/* ---- what does not ---- */

static uint8_t *image;
static size_t n_image;
static uint64_t record_bytes;

static void flip_magic(void)
{
    image[3] ^= 1;
}
static void older_version(void)
{
    image[7] = '1';
}
static void flip_key(void)
{
    image[60] ^= 1;
}
static void flip_count(void)
{
    image[8] ^= 1;
}
static void flip_header_sum(void)
{
    image[HALO_PREFIX_HEADER_BYTES - 1] ^= 1;
}
static void flip_user(void)
{
    image[HALO_PREFIX_HEADER_BYTES + 24] ^= 1;
}
static void flip_id(void)
{
    image[HALO_PREFIX_HEADER_BYTES + record_bytes + 41] ^= 1;
}
static void other_groups(void)
{
    image[HALO_PREFIX_HEADER_BYTES + record_bytes + 36] |= 2;
}
static void no_first_group(void)
{
    image[HALO_PREFIX_HEADER_BYTES + record_bytes + 36] = 0;
}
static void flip_page(void)
{
    image[HALO_PREFIX_HEADER_BYTES + record_bytes + 200] ^= 0x80;
}
static void flip_record_sum(void)
{
    image[HALO_PREFIX_HEADER_BYTES + record_bytes - 1] ^= 1;
}
static void flip_last_byte(void)
{
    image[n_image - 1] ^= 1;
}
static void cut_a_byte(void)
{
    n_image--;
}
static void cut_a_record(void)
{
    n_image -= record_bytes;
}
static void cut_to_header(void)
{
    n_image = HALO_PREFIX_HEADER_BYTES;
}
static void cut_in_header(void)
{
    n_image = HALO_PREFIX_HEADER_BYTES - 1;
}
static void cut_to_nothing(void)
{
    n_image = 0;
}
static void add_a_byte(void)
{
    image[n_image++] = 0;
}
static void swap_records(void)
{
    uint8_t *a = image + HALO_PREFIX_HEADER_BYTES, *b = a + record_bytes;
    for (uint64_t i = 0; i < record_bytes; i++) {
        uint8_t was = a[i];
        a[i] = b[i];
        b[i] = was;
    }
}
static void other_build(void)
{
    char sum[HALO_SHA256_HEX];
    const size_t n_summed = HALO_PREFIX_HEADER_BYTES - 64;
    uint8_t *device = memmem(image, n_summed, "device: fake", 12);
    assert_non_null(device);
    device[8] = 'F';
    halo_sha256_hex(image, n_summed, sum);
    memcpy(image + n_summed, sum, 64);
}
static void all_zeros(void)
{
    memset(image, 0, n_image);
}

static const struct {
    const char *name, *says;
    void (*damage)(void);
} damages[] = {
    {"magic", "not a prefix file", flip_magic},
    {"version", "another version", older_version},
    {"key", "checksum of its header", flip_key},
    {"count", "checksum of its header", flip_count},
    {"header sum", "checksum of its header", flip_header_sum},
    {"user", "checksum of record 0", flip_user},
    {"id", "checksum of record 1", flip_id},
    {"groups", "record 1 is not whole", other_groups},
    {"no group", "record 1 is not whole", no_first_group},
    {"page", "checksum of record 1", flip_page},
    {"record sum", "checksum of record 0", flip_record_sum},
    {"last byte", "checksum of record 2", flip_last_byte},
    {"one byte less", "its header says", cut_a_byte},
    {"one record less", "its header says", cut_a_record},
    {"no record", "its header says", cut_to_header},
    {"half a header", "a header has 1024", cut_in_header},
    {"nothing", "a header has 1024", cut_to_nothing},
    {"one byte more", "its header says", add_a_byte},
    {"order", "record 0 does not belong to this file", swap_records},
    {"zeros", "not a prefix file", all_zeros},
    {"another build", "its device or build of halod differs", other_build},
};

static void write_image(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, image, n_image), n_image);
    close(fd);
}

static void read_image(const char *path)
{
    struct halo_prefix_key key = {.n_groups = 1, .page_bytes = {32 * sizeof(int32_t)}};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    image = malloc(65536);
    n_image = fread(image, 1, 65000, file);
    fclose(file);
    record_bytes = halo_prefix_record_bytes(&key, 1);
    assert_int_equal(n_image, HALO_PREFIX_HEADER_BYTES + N_PAGES * record_bytes);
}

/* Loads beside the file as it is now: it is ignored, and said to be because of this. */
static void expect_ignored(struct child *c, const char *kv, const char *name, const char *says)
{
    char path[512];
    struct child_request *loaded = load(c, kv);
    if (child_number(loaded, "prefix_pages") != 0 || !strstr(loaded->notice, "prefixes_ignored") ||
        !strstr(loaded->notice, says))
        fail_msg("%s: %s\n%s", name, loaded->notice, loaded->last);
    assert_true(find_file(path)); /* for whoever wants to know why */
    assert_int_equal(child_number(generate(c, prompt, 1), "cached_tokens"), 0);
    child_send(c, "{\"type\":\"status\",\"id\":%lld}", (long long)++next_id);
    assert_non_null(strstr(child_wait(c, next_id)->last, "\"prefixes_ignored\":\"saved prefixes of"));
    child_send(c, "{\"type\":\"unload\",\"id\":%lld," MODEL "}", (long long)++next_id);
    assert_int_equal(child_wait(c, next_id)->terminal, HALO_EV_UNLOADED);
}

static void make_file(struct child *c, char path[512])
{
    begin(c, true);
    load(c, "f16");
    generate(c, prompt, 1);
    assert_int_equal(save(c, 30000), N_PAGES);
    assert_true(find_file(path));
    child_send(c, "{\"type\":\"unload\",\"id\":%lld," MODEL "}", (long long)++next_id);
    assert_int_equal(child_wait(c, next_id)->terminal, HALO_EV_UNLOADED);
}

static void damaged_files_are_ignored_aloud(void **state)
{
    struct child c;
    char path[512];
    make_file(&c, path);
    read_image(path);
    uint8_t *whole = malloc(n_image);
    size_t n_whole = n_image;
    memcpy(whole, image, n_image);
    for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
        memcpy(image, whole, n_whole);
        n_image = n_whole;
        damages[i].damage();
        write_image(path);
        expect_ignored(&c, "f16", damages[i].name, damages[i].says);
    }
    memcpy(image, whole, n_whole);
    n_image = n_whole;
    write_image(path);
    expect_ignored(&c, "q8", "another kv type", "its kv cache differs");
    assert_int_equal(chmod(path, 0640), 0);
    expect_ignored(&c, "f16", "readable by others", "other users can access it");
    assert_int_equal(chmod(path, 0600), 0);
    char elsewhere[600];
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", dir);
    assert_int_equal(rename(path, elsewhere), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    expect_ignored(&c, "f16", "a link", "cannot be opened");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_ignored(&c, "f16", "a pipe", "not a regular file"); /* and nobody waits for its other end */
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(elsewhere, path), 0);
    assert_int_equal(child_number(load(&c, "f16"), "prefix_pages"), N_PAGES); /* as it was it is good */
    assert_int_equal(child_number(generate(&c, prompt, 1), "cached_tokens"), N_PROMPT - 1);
    assert_int_equal(child_end(&c), 0);
    free(whole);
    free(image);
}

static void a_larger_file_than_may_be(void **state)
{
    struct child c;
    char path[512];
    make_file(&c, path);
    assert_int_equal(child_end(&c), 0);
    child_save_bytes = 1500;
    begin(&c, true);
    expect_ignored(&c, "f16", "large", "1500 are allowed");
    assert_int_equal(child_end(&c), 0);
    child_save_bytes = 64u << 20;
    remove_file();
}

static int start(void **state)
{
    child_prompt(prompt, N_PROMPT);
    return mkdtemp(dir) ? 0 : 1;
}

static int finish(void **state)
{
    return child_remove_folder(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_comes_back_bit_for_bit), cmocka_unit_test(as_much_as_may_be_in_order_of_use),
        cmocka_unit_test(evictions_are_counted),     cmocka_unit_test(a_save_beside_requests),
        cmocka_unit_test(pages_that_cannot_be_read), cmocka_unit_test(damaged_files_are_ignored_aloud),
        cmocka_unit_test(a_larger_file_than_may_be),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
