/* test_names.c: a name stands for a file: namesakes, links, paths to nothing, files that are replaced or change, and
 * what `models` says of all of them. Argument: mkgguf.
 */
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

#include "child.h"

#define SMALL ",\"params\":{\"context\":512,\"kv_tokens\":512}"

static char dir[] = "/tmp/halo-test-names-XXXXXX";
static char *model_bytes;
static size_t n_model_bytes;
static const char *mkgguf;
static int64_t next_id;

/* The model, with a name of its own inside, so that no two files are alike. */
static void write_model(const char *name, char mark)
{
    char path[4096];
    char *inside = memmem(model_bytes, n_model_bytes, "general.name", 12);
    assert_non_null(inside);
    inside[12 + 4 + 8] = mark; /* after the key, its type and its length */
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model_bytes, 1, n_model_bytes, file), n_model_bytes);
    assert_int_equal(fclose(file), 0);
}

static void make_folder(const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    assert_true(mkdir(path, 0700) == 0);
}

static void begin(struct child *c, const char *folders)
{
    static char paths[8][4096];
    child_n_dirs = 0;
    for (const char *at = folders; *at; at++) {
        snprintf(paths[child_n_dirs], sizeof(paths[0]), "%s/%c", dir, *at);
        child_dirs[child_n_dirs] = paths[child_n_dirs];
        child_n_dirs++;
    }
    next_id = 0;
    child_start(c, true, NULL);
}

/* The end of a request of this type for the model that `name` is, %s in it the folder of the test. */
static struct child_request *ask(struct child *c, const char *type, const char *name, const char *rest)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s%s", name[0] == '/' ? dir : "", name);
    child_send(c, "{\"type\":\"%s\",\"id\":%lld,\"model\":\"%s\"%s}", type, (long long)++next_id, path, rest);
    return child_wait(c, next_id);
}

static struct child_request *load(struct child *c, const char *name)
{
    struct child_request *request = ask(c, "load", name, SMALL);
    if (request->terminal != HALO_EV_LOADED)
        fail_msg("%s: %s", name, request->last);
    return request;
}

static struct child_request *generate(struct child *c, const char *name)
{
    return ask(c, "generate", name, ",\"tokens\":[5],\"max_tokens\":1,\"ignore_eos\":true");
}

static void expect_error(const struct child_request *request, enum halo_error code, const char *says)
{
    if (request->terminal != HALO_EV_ERROR || request->error != code || !strstr(request->message, says))
        fail_msg("wanted '%s': %s", says, request->last);
}

static const char *name_of(const struct child_request *loaded)
{
    static char name[4096];
    const char *at = strstr(loaded->last, "\"model\":\"");
    assert_non_null(at);
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 9, "\""), at + 9);
    return name;
}

static struct child_request *models(struct child *c)
{
    child_send(c, "{\"type\":\"models\",\"id\":%lld}", (long long)++next_id);
    struct child_request *request = child_wait(c, next_id);
    assert_int_equal(request->terminal, HALO_EV_MODELS);
    return request;
}

/* The row of `models` with this path, from its brace to the next. */
static const char *row_of(const struct child_request *request, const char *path)
{
    static char row[2048];
    char field[4200];
    snprintf(field, sizeof(field), "\"path\":\"%s%s\"", dir, path);
    const char *at = strstr(request->last, field);
    if (!at)
        fail_msg("no row of %s in %s", path, request->last);
    while (*at != '{')
        at--;
    snprintf(row, sizeof(row), "%.*s", (int)strcspn(at, "}"), at);
    return row;
}

static void expect_row(const struct child_request *request, const char *path, const char *says)
{
    const char *row = row_of(request, path);
    if (!strstr(row, says))
        fail_msg("%s lacks %s: %s", path, says, row);
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    while ((text = strstr(text, word))) {
        text += strlen(word);
        n++;
    }
    return n;
}

/* ---- which model answers ---- */

static void a_namesake_never_answers(void **state)
{
    struct child c;
    begin(&c, "a");
    assert_string_equal(name_of(load(&c, "/a/model.gguf")), "model");
    expect_error(generate(&c, "/b/model.gguf"), HALO_ERROR_NOT_FOUND, "is not loaded");
    expect_error(generate(&c, "/b/nothing/model.gguf"), HALO_ERROR_NOT_FOUND, "No such file or directory");
    expect_error(ask(&c, "unload", "/b/model.gguf", ""), HALO_ERROR_NOT_FOUND, "is not loaded");
    expect_error(ask(&c, "load", "/nowhere/model.gguf", SMALL), HALO_ERROR_NOT_FOUND, "No such file or directory");
    const char *name = name_of(load(&c, "/b/model.gguf"));
    assert_string_equal(name + strlen(dir), "/b/model.gguf"); /* the plain name is taken */
    assert_int_equal(generate(&c, "/b/model.gguf")->terminal, HALO_EV_DONE);
    assert_int_equal(generate(&c, "/a/model.gguf")->terminal, HALO_EV_DONE);
    assert_int_equal(generate(&c, "model")->terminal, HALO_EV_DONE);
    assert_non_null(strstr(c.requests[next_id].started, "\"model\":\"model\""));
    assert_int_equal(generate(&c, "model.gguf")->terminal, HALO_EV_DONE);
    assert_int_equal(ask(&c, "unload", "/b/model.gguf", "")->terminal, HALO_EV_UNLOADED);
    assert_int_equal(generate(&c, "model")->terminal, HALO_EV_DONE);
    expect_error(generate(&c, "/b/model.gguf"), HALO_ERROR_NOT_FOUND, "is not loaded");
    expect_error(generate(&c, "b/model.gguf"), HALO_ERROR_BAD_REQUEST, "send an absolute path");
    expect_error(ask(&c, "load", "/b", SMALL), HALO_ERROR_LOAD_FAILED, "/b is not a regular file");
    child_send(&c, "{\"type\":\"plan\",\"id\":901,\"path\":\"model.gguf\"}"); /* a path, though it has no slash */
    expect_error(child_wait(&c, 901), HALO_ERROR_BAD_REQUEST, "send an absolute path");
    assert_int_equal(child_end(&c), 0);
}

static void a_name_of_several_files_is_none(void **state)
{
    struct child c;
    char both[8300];
    begin(&c, "ab");
    snprintf(both, sizeof(both), "2 files are called model; name one by its path: %s/a/model.gguf, %s/b/model.gguf",
             dir, dir);
    expect_error(ask(&c, "load", "model", SMALL), HALO_ERROR_BAD_REQUEST, both);
    expect_error(generate(&c, "model"), HALO_ERROR_BAD_REQUEST, both);
    assert_int_equal(child_end(&c), 0);
    begin(&c, "aba"); /* a folder that is given twice has no more files */
    expect_error(ask(&c, "load", "model", SMALL), HALO_ERROR_BAD_REQUEST, both);
    const struct child_request *list = models(&c);
    assert_int_equal(count(list->last, "\"path\":"), 3);
    for (int i = 0; i < 2; i++) {
        char path[32], name[4200];
        snprintf(path, sizeof(path), "/%c/model.gguf", "ab"[i]);
        snprintf(name, sizeof(name), "\"name\":\"%s%s\"", dir, path);
        expect_row(list, path, name);
    }
    const char *name = name_of(load(&c, "/a/model.gguf"));
    assert_string_equal(name + strlen(dir), "/a/model.gguf");
    expect_error(generate(&c, "model"), HALO_ERROR_BAD_REQUEST, both);
    assert_int_equal(generate(&c, "/a/model.gguf")->terminal, HALO_EV_DONE);
    expect_row(models(&c), "/a/model.gguf", "\"loaded\":true");
    assert_string_equal(name_of(load(&c, "other")), "other");
    assert_int_equal(child_end(&c), 0);
}

/* Names of one file are one model, held in memory once. */
static void links_are_one_model(void **state)
{
    struct child c;
    char target[4096], link_path[4096];
    snprintf(target, sizeof(target), "%s/a/model.gguf", dir);
    snprintf(link_path, sizeof(link_path), "%s/a/alias.gguf", dir);
    assert_int_equal(symlink(target, link_path), 0);
    begin(&c, "a");
    load(&c, "model");
    assert_string_equal(name_of(load(&c, "alias")), "model");
    assert_int_equal(generate(&c, "alias")->terminal, HALO_EV_DONE);
    assert_int_equal(generate(&c, "/a/alias.gguf")->terminal, HALO_EV_DONE);
    expect_row(models(&c), "/a/alias.gguf", "\"loaded\":true");
    child_send(&c, "{\"type\":\"status\",\"id\":900}");
    assert_null(strstr(child_wait(&c, 900)->last, "\"name\":\"alias\""));
    assert_int_equal(child_end(&c), 0);
    assert_int_equal(unlink(link_path), 0);
}

/* All in one write: each hears of the model that the load brings, under every name that may be its own. */
static void names_of_a_load_that_is_under_way(void **state)
{
    struct child c;
    begin(&c, "a");
    child_send(&c, "{\"type\":\"load\",\"id\":1,\"model\":\"%s/a/model.gguf\"" SMALL "}", dir);
    child_send(&c, "{\"type\":\"load\",\"id\":2,\"model\":\"model\"" SMALL "}");
    child_send(&c, "{\"type\":\"tokenize\",\"id\":3,\"model\":\"model\",\"text\":\"a\"}");
    child_send(&c, "{\"type\":\"tokenize\",\"id\":4,\"model\":\"%s/a/model.gguf\",\"text\":\"a\"}", dir);
    child_send(&c, "{\"type\":\"tokenize\",\"id\":5,\"model\":\"%s/b/model.gguf\",\"text\":\"a\"}", dir);
    child_send(&c, "{\"type\":\"load\",\"id\":6,\"model\":\"%s/b/model.gguf\"" SMALL "}", dir);
    assert_int_equal(child_wait(&c, 1)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_wait(&c, 2)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_wait(&c, 3)->terminal, HALO_EV_TOKENS);
    assert_int_equal(child_wait(&c, 4)->terminal, HALO_EV_TOKENS);
    child_wait(&c, 5); /* loaded or not yet, by the time that it is looked up */
    assert_int_equal(child_wait(&c, 6)->terminal, HALO_EV_LOADED);
    assert_int_equal(child_end(&c), 0);
}

/* ---- files that do not stay what they were ---- */

static void a_replaced_file_is_another_one(void **state)
{
    struct child c;
    char from[4096], to[4096];
    write_model("a/twin.gguf", 't');
    begin(&c, "a");
    load(&c, "twin");
    write_model("a/new", 'n');
    snprintf(from, sizeof(from), "%s/a/new", dir);
    snprintf(to, sizeof(to), "%s/a/twin.gguf", dir);
    assert_int_equal(rename(from, to), 0);
    expect_error(generate(&c, "/a/twin.gguf"), HALO_ERROR_BAD_REQUEST, "was replaced or changed after it was loaded");
    expect_error(ask(&c, "load", "/a/twin.gguf", SMALL), HALO_ERROR_BAD_REQUEST, "was replaced or changed");
    assert_int_equal(generate(&c, "twin")->terminal, HALO_EV_DONE); /* a model stays what it was */
    const char *list = models(&c)->last;
    assert_non_null(strstr(list, "\"replaced\":true"));
    assert_non_null(strstr(list, "\"name\":\"twin\""));
    assert_int_equal(ask(&c, "unload", "twin", "")->terminal, HALO_EV_UNLOADED);
    load(&c, "twin");
    assert_null(strstr(models(&c)->last, "\"replaced\":true"));
    assert_int_equal(unlink(to), 0);
    assert_non_null(strstr(models(&c)->last, "\"replaced\":true")); /* it is gone, the model is not */
    assert_int_equal(child_end(&c), 0);
}

/* What leaves the bytes alone leaves the model what it is; a write does not, even one that keeps the size. */
static void only_a_write_makes_another_model(void **state)
{
    struct child c;
    char path[4096], link_path[4096];
    struct stat facts;
    write_model("a/kept.gguf", 'k');
    snprintf(path, sizeof(path), "%s/a/kept.gguf", dir);
    snprintf(link_path, sizeof(link_path), "%s/b/kept-too.gguf", dir);
    begin(&c, "a");
    load(&c, "kept");
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(link(path, link_path), 0);
    assert_int_equal(generate(&c, "/a/kept.gguf")->terminal, HALO_EV_DONE);
    assert_int_equal(generate(&c, "/b/kept-too.gguf")->terminal, HALO_EV_DONE);
    assert_string_equal(name_of(load(&c, "/b/kept-too.gguf")), "kept");
    const struct child_request *list = models(&c);
    expect_row(list, "/a/kept.gguf", "\"loaded\":true");
    assert_null(strstr(list->last, "\"replaced\":true"));
    assert_int_equal(unlink(link_path), 0);
    assert_int_equal(stat(path, &facts), 0);
    write_model("a/kept.gguf", 'w');
    const struct timespec later[2] = {{0, UTIME_OMIT}, {facts.st_mtim.tv_sec + 1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, later, 0), 0);
    expect_error(generate(&c, "/a/kept.gguf"), HALO_ERROR_BAD_REQUEST, "was replaced or changed after it was loaded");
    assert_non_null(strstr(models(&c)->last, "\"replaced\":true"));
    assert_int_equal(child_end(&c), 0);
    assert_int_equal(unlink(path), 0);
}

/* A set is what all of its parts are: one whose last part is another one now is a different model. */
static void a_set_with_a_replaced_part_is_another_one(void **state)
{
    static const char path[] = "/p/set-00001-of-00003.gguf";
    char command[9000], part[4200], old[4200];
    struct child c;
    make_folder("p");
    snprintf(command, sizeof(command),
             "'%s' --arch llama --layers 2 --vocab 512 --embd 128 --heads 2 --heads-kv 1 --head-dim 64 --ff 256 "
             "--context 512 "
             "--split 3 -o '%s/p/set.gguf' >/dev/null",
             mkgguf, dir);
    assert_int_equal(system(command), 0);
    snprintf(part, sizeof(part), "%s/p/set-00003-of-00003.gguf", dir);
    snprintf(old, sizeof(old), "%s/p/old", dir);
    snprintf(command, sizeof(command), "cp '%s' '%s'", part, old);
    assert_int_equal(system(command), 0);
    begin(&c, "p");
    load(&c, "set");
    load(&c, path);
    expect_row(models(&c), path, "\"loaded\":true");
    assert_null(strstr(models(&c)->last, "\"replaced\":true"));
    assert_int_equal(rename(old, part), 0);
    expect_error(ask(&c, "load", path, SMALL), HALO_ERROR_BAD_REQUEST, "was replaced or changed");
    expect_error(generate(&c, path), HALO_ERROR_BAD_REQUEST, "was replaced or changed");
    const struct child_request *list = models(&c);
    assert_non_null(strstr(list->last, "\"replaced\":true"));
    expect_row(list, path, "\"loaded\":false"); /* the set that is there now */
    assert_int_equal(ask(&c, "unload", "set", "")->terminal, HALO_EV_UNLOADED);
    load(&c, "set");
    assert_null(strstr(models(&c)->last, "\"replaced\":true"));
    assert_int_equal(unlink(part), 0); /* it is gone, the model is not */
    assert_non_null(strstr(models(&c)->last, "\"replaced\":true"));
    assert_int_equal(child_end(&c), 0);
}

/* What a program downloads under a hidden name is not offered, and is no model of that name either. */
static void a_hidden_file_is_loaded_by_its_path(void **state)
{
    struct child c;
    write_model("a/.part.gguf", 'h');
    begin(&c, "a");
    assert_null(strstr(models(&c)->last, ".part"));
    expect_error(ask(&c, "load", ".part", SMALL), HALO_ERROR_NOT_FOUND, "a hidden file is loaded by its path alone");
    expect_error(ask(&c, "load", ".part.gguf", SMALL), HALO_ERROR_NOT_FOUND, "a hidden file is loaded by its path");
    load(&c, "/a/.part.gguf");
    expect_row(models(&c), "/a/.part.gguf", "\"loaded\":true");
    assert_int_equal(child_end(&c), 0);
}

/* ---- what `models` says ---- */

static void put(const char *name, const char *bytes)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, strlen(bytes), file), strlen(bytes));
    assert_int_equal(fclose(file), 0);
}

static void faults_of_files_are_told(void **state)
{
    struct child c;
    char other[4096], path[4096];
    put("f/pointer.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:4665\nsize 12345678");
    put("f/page.gguf", "<!DOCTYPE html><html><title>Sign in</title></html>");
    put("f/esc\033[31m.gguf", "GGUF, but nothing that follows is any");
    put("f/latin\351.gguf", "GGUF, but nothing that follows is any");
    char *arch = memmem(model_bytes, n_model_bytes, "general.architecture", 20);
    assert_non_null(arch);
    memcpy(arch + 20 + 4 + 8, "qwenX", 5);
    write_model("f/strange.gguf", 's');
    memcpy(arch + 20 + 4 + 8, "qwen3", 5);
    snprintf(path, sizeof(path), "%s/g", dir); /* is no folder */
    put("g", "");
    begin(&c, "fgh");
    const struct child_request *list = models(&c);
    expect_row(list, "/f/pointer.gguf", "is a Git LFS pointer");
    expect_row(list, "/f/page.gguf", "is an HTML page");
    expect_row(list, "/f/strange.gguf", "architecture \\\"qwenX\\\" is not supported");
    expect_row(list, "/f/esc\\u001b[31m.gguf", "\"fault\":\"");
    expect_row(list, "/f/latin\357\277\275.gguf", "its name is not UTF-8");
    snprintf(other, sizeof(other), "{\"path\":\"%s/g\",\"fault\":\"Not a directory\"}", dir);
    assert_non_null(strstr(list->last, other));
    snprintf(other, sizeof(other), "{\"path\":\"%s/h\",\"fault\":\"No such file or directory\"}", dir);
    assert_non_null(strstr(list->last, other));
    expect_error(ask(&c, "load", "page", SMALL), HALO_ERROR_LOAD_FAILED, "is an HTML page");
    load(&c, "/a/model.gguf"); /* in none of the folders: what is loaded is listed all the same */
    expect_row(models(&c), "/a/model.gguf", "\"loaded\":true");
    assert_int_equal(child_end(&c), 0);
}

/* A part of a split set that holds no tensors. */
static void write_part(const char *name, uint16_t number, uint16_t count)
{
    static const char *const keys[] = {"split.no", "split.count"};
    const uint16_t values[] = {number, count};
    const uint32_t version = 3, kind_u16 = 2;
    const uint64_t n_tensors = 0, n_keys = 2;
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite("GGUF", 1, 4, file);
    fwrite(&version, sizeof(version), 1, file);
    fwrite(&n_tensors, sizeof(n_tensors), 1, file);
    fwrite(&n_keys, sizeof(n_keys), 1, file);
    for (int i = 0; i < 2; i++) {
        uint64_t n = strlen(keys[i]);
        fwrite(&n, sizeof(n), 1, file);
        fwrite(keys[i], 1, n, file);
        fwrite(&kind_u16, sizeof(kind_u16), 1, file);
        fwrite(&values[i], sizeof(values[i]), 1, file);
    }
    assert_int_equal(fclose(file), 0);
}

/* A set that lacks a part is listed once, with the part that it lacks, and a load by its name says the same. */
static void sets_that_lack_a_part(void **state)
{
    static const char no_first[] = "part 1 (name ending in -00001-of-00003.gguf) is missing";
    static const char no_second[] = "rest-00002-of-00003.gguf: part 2 of 3 is missing";
    struct child c;
    make_folder("s");
    write_part("s/lost-00002-of-00003.gguf", 1, 3);
    write_part("s/lost-00003-of-00003.gguf", 2, 3);
    write_part("s/rest-00001-of-00003.gguf", 0, 3);
    write_part("s/rest-00003-of-00003.gguf", 2, 3);
    begin(&c, "s");
    struct child_request *request = models(&c);
    expect_row(request, "/s/lost-00002-of-00003.gguf", no_first);
    expect_row(request, "/s/lost-00002-of-00003.gguf", "\"name\":\"lost\"");
    expect_row(request, "/s/rest-00001-of-00003.gguf", no_second);
    assert_null(strstr(request->last, "-00003-of-00003.gguf\""));
    expect_error(ask(&c, "load", "lost", SMALL), HALO_ERROR_LOAD_FAILED, no_first);
    expect_error(ask(&c, "load", "rest", SMALL), HALO_ERROR_LOAD_FAILED, no_second);
    expect_error(ask(&c, "load", "los", SMALL), HALO_ERROR_NOT_FOUND, "no model file los(.gguf)");
    assert_int_equal(child_end(&c), 0);
}

static int start(void **state)
{
    char path[4096];
    const char *root = getenv("HALO_SOURCE_ROOT");
    if (!mkdtemp(dir))
        return 1;
    snprintf(path, sizeof(path), "%s/tests/models/fable-Q4_K_M.gguf", root ? root : ".");
    FILE *file = fopen(path, "rb");
    model_bytes = malloc(8u << 20);
    if (!file || !model_bytes)
        return 1;
    n_model_bytes = fread(model_bytes, 1, 8u << 20, file);
    fclose(file);
    make_folder("a");
    make_folder("b");
    make_folder("f");
    write_model("a/model.gguf", 'a');
    write_model("a/other.gguf", 'o');
    write_model("b/model.gguf", 'b');
    return 0;
}

static int finish(void **state)
{
    free(model_bytes);
    return child_remove_folder(dir);
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    mkgguf = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_namesake_never_answers),
        cmocka_unit_test(a_name_of_several_files_is_none),
        cmocka_unit_test(links_are_one_model),
        cmocka_unit_test(names_of_a_load_that_is_under_way),
        cmocka_unit_test(a_replaced_file_is_another_one),
        cmocka_unit_test(only_a_write_makes_another_model),
        cmocka_unit_test(a_set_with_a_replaced_part_is_another_one),
        cmocka_unit_test(a_hidden_file_is_loaded_by_its_path),
        cmocka_unit_test(faults_of_files_are_told),
        cmocka_unit_test(sets_that_lack_a_part),
    };
    return cmocka_run_group_tests(tests, start, finish);
}
